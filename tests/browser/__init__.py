"""What needs a browser; `make browser` runs it, `make test` does not."""
