"""Speculative decoding: tokens won by drafting k and verifying them in one step.

Verification is a generate step with k + 1 rows and query tokens per sequence: pass `verified_rows` to the matmuls and
`query_tokens` to `generate_attention`. Weights and cache are read once, however many tokens are verified.
"""


def verified_rows(sequences: float, drafted_tokens: int) -> float:
    """Rows of a verification step: each sequence's last token and its k drafts."""
    return sequences * (drafted_tokens + 1)


def expected_tokens(acceptance: float, drafted_tokens: int) -> float:
    """Tokens that one verification adds, each draft accepted with the same chance a until the first is not.

    (1 - a^(k + 1)) / (1 - a)     (Leviathan et al. 2023, arXiv 2211.17192, equation 1)
    """
    return sum(acceptance**place for place in range(drafted_tokens + 1))


def speculative_tpot_s(verify_s: float, draft_s: float, acceptance: float, drafted_tokens: int) -> float:
    """Seconds per output token: k drafts and one verification over the tokens they add (arXiv 2211.17192 § 3)."""
    return (verify_s + drafted_tokens * draft_s) / expected_tokens(acceptance, drafted_tokens)


def break_even_acceptance(verify_s: float, draft_s: float, plain_s: float, drafted_tokens: int) -> float:
    """Acceptance below which drafting loses to plain steps of `plain_s`; 1.0 when it always does. By bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if speculative_tpot_s(verify_s, draft_s, middle, drafted_tokens) > plain_s:
            low = middle
        else:
            high = middle
    return high
