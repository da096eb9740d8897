"""A `gh` that knows the calls of the action, and keeps the comments of its issues in the file that COMMENTS names.

Each call is written down in CALLS, one line each. Anything else that it is asked for is an error, so that the action
cannot use what this does not check.
"""

import json
import os
import re
import sys
from pathlib import Path

OWN = ".[] | select(.body | startswith(env.MARKER)) | .id"


def main(arguments: list[str]) -> None:
    """Answer one call."""
    assert os.environ["GH_TOKEN"] == "secret"
    with Path(os.environ["CALLS"]).open("a", encoding="utf-8") as calls:
        calls.write(" ".join(arguments) + "\n")
    if "REFUSE" in os.environ:
        sys.exit("HTTP 403: Resource not accessible by integration")
    kept = Path(os.environ["COMMENTS"])
    comments = json.loads(kept.read_text(encoding="utf-8"))
    match arguments:
        case ["api", "--paginate", "repos/owner/name/issues/7/comments", "--jq", query] if query == OWN:
            marker = os.environ["MARKER"]
            print("".join(f"{each['id']}\n" for each in comments if each["body"].startswith(marker)), end="")
        case ["api", "--method", "POST", "repos/owner/name/issues/7/comments", "-F", field]:
            comments.append({"id": 100 + len(comments), "body": body(field)})
        case ["api", "--method", "PATCH", address, "-F", field]:
            found = re.fullmatch(r"repos/owner/name/issues/comments/(\d+)", address)
            assert found is not None
            (own,) = [each for each in comments if each["id"] == int(found[1])]
            own["body"] = body(field)
        case _:
            sys.exit(f"unknown call: {arguments}")
    kept.write_text(json.dumps(comments), encoding="utf-8")


def body(field: str) -> str:
    """What a field `body=@FILE` says."""
    return Path(field.removeprefix("body=@")).read_text(encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
