"""Integer expressions of symbols are exact, parse back from their text, and run no code."""

import re

import pytest

from lastbit.expression import Expression, ExpressionError, parse_expression

ALLOWED = "Allowed: integers, symbols, + - * / // % **, min, max, ceil and floor."


@pytest.mark.parametrize(
    ("text", "sizes", "value"),
    [
        ("max(1, 132 // ceil(M/128))", {"M": 1}, 132),
        ("max(1, 132 // ceil(M/128))", {"M": 129}, 66),
        ("max(1, 132 // ceil(M/128))", {"M": 10**6}, 1),
        ("M / 3 * 3", {"M": 7}, 7),  # a binary float would give 7 here, but not at 2**53 + 1
        ("M / 3 * 3", {"M": 2**53 + 1}, 2**53 + 1),
        ("-M // 2", {"M": 3}, -2),
        ("-M % 4", {"M": 3}, 1),
        ("2**K", {"K": 10}, 1024),
        ("min(M, N, 8) + floor(N / 2)", {"M": 9, "N": 7}, 10),
        ("+12", {}, 12),
    ],
)
def test_the_value_is_exact(text: str, sizes: dict[str, int], value: int) -> None:
    assert parse_expression(text).evaluate(sizes) == value


def test_the_text_parses_back() -> None:
    expression = parse_expression("max(1,132//ceil(M/128))")
    assert str(expression) == "max(1, 132 // ceil(M / 128))"
    assert parse_expression(str(expression)) == expression
    assert parse_expression("a-(b-c)*(d**2)") == Expression("a - (b - c) * d ** 2")


def test_the_symbols_are_those_of_the_text() -> None:
    assert parse_expression("max(M, K) // N + M").symbols == {"M", "K", "N"}
    assert parse_expression("8").symbols == frozenset()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '__import__("os")',
            """expression '__import__("os")': a call of '__import__' is not allowed. """ + ALLOWED,
        ),
        (
            "ciel(M)",
            "expression 'ciel(M)': a call of 'ciel' is not allowed. Did you mean 'ceil'?",
        ),
        ("M.real", "expression 'M.real': 'M.real' is not allowed. " + ALLOWED),
        ("x[0]", "expression 'x[0]': 'x[0]' is not allowed. " + ALLOWED),
        ("1.5", "expression '1.5': '1.5' is not allowed. " + ALLOWED),
        ("True", "expression 'True': 'True' is not allowed. " + ALLOWED),
        ("M if M else 1", "expression 'M if M else 1': 'M if M else 1' is not allowed. " + ALLOWED),
        ("M << 2", "expression 'M << 2': the operator in 'M << 2' is not allowed. " + ALLOWED),
        ("M +", "expression 'M +': this is no expression. " + ALLOWED),
        ("", "expression '': this is no expression. " + ALLOWED),
        ("max + 1", "expression 'max + 1': 'max' is a function. Call it: max(...)."),
        (
            "ceil(M, 2)",
            "expression 'ceil(M, 2)': the arguments of 'ceil(M, 2)' do not fit. Write ceil(a).",
        ),
        (
            "max(*M)",
            "expression 'max(*M)': the arguments of 'max(*M)' do not fit. Write max(a, b, ...).",
        ),
        (
            "1 + " * 200 + "1",
            "expression '1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + ...': "
            "801 characters are too many. Allowed: 500.",
        ),
    ],
)
def test_what_is_not_allowed_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=f"^{re.escape(message)}$"):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m", "expression 'm': the symbol 'm' has no size. Allowed: K, M."),
        ("M // 0", "expression 'M // 0': 'M // 0' divides by zero. "
                   "Guard the divisor with max(1, ...)."),
        ("M / 2", "expression 'M / 2': the value 5/2 is no integer at M=5. Use //, ceil or floor."),
        (
            "2 ** 65",
            "expression '2 ** 65': the exponent of '2 ** 65' is 65. "
            "Allowed: integers from 0 to 64.",
        ),
        (
            "(2 ** 64) ** 9",
            "expression '(2 ** 64) ** 9': '(2 ** 64) ** 9' needs more than 512 bits. "
            "Use smaller numbers.",
        ),
    ],
)  # fmt: skip
def test_what_has_no_value_says_why(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=f"^{re.escape(message)}$"):
        parse_expression(text).evaluate({"M": 5, "K": 64})
