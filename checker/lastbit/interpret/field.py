"""The field domain: graphs over residues, whole tensors at once.

Two programs that agree here on random inputs compute the same function, up to the (tiny, and
not claimed) chance that residues coincide; a disagreement is a hint that the exact domain
confirms with a witness. What a residue cannot carry is replaced by a keyed hash of function
and arguments, so that agreement stays sound:

- a rounding is an odd keyed hash that keeps the sign and zero, and keeps values that are known
  to be values of the format;
- a rounded sum is a keyed hash of the multiset of its terms (ROUND), or of the two operands at
  every node of its tree (BITS); a step of a matrix unit hashes the multiset of its terms;
- max is a keyed hash of the set of its arguments, flattened; min is -max(-x);
- erf, sin, cos, floor, and an exponential of something that has no residue modulo q, are
  keyed hashes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from lastbit.formats import Format
from lastbit.graph import Const, Input, View
from lastbit.interpret.digits import ZERO, Digits, join
from lastbit.interpret.residues import Field, Flags, Words, key_of, mix, mix_int
from lastbit.interpret.views import view_array
from lastbit.machines import unit_of
from lastbit.rounding import Mode, Rounding
from lastbit.schedule import AnyOrder, Fused, Schedule, fold, levels

FINITE, INF, NINF, NAN, UNDEFINED = range(5)
SENTINEL = np.uint64((1 << 64) - 1)
MOST_KNOWN = 1 << 10  # elements of a tensor whose values are looked for among known ones
SCALAR_LIMIT = 32  # output elements up to which a sum is folded in Python integers

_ADD = np.array(
    [
        [FINITE, INF, NINF, NAN, UNDEFINED],
        [INF, INF, NAN, NAN, UNDEFINED],
        [NINF, NAN, NINF, NAN, UNDEFINED],
        [NAN, NAN, NAN, NAN, UNDEFINED],
        [UNDEFINED] * 5,
    ],
    np.uint8,
)
_NEG = np.array([FINITE, NINF, INF, NAN, UNDEFINED], np.uint8)


@dataclass(frozen=True, slots=True)
class Residue:
    """A tensor of residues.

    Attributes:
        p: values modulo p, or None where only the exponent is known (a logarithm).
        q: values modulo q, or None where none is known (an exponential, a root).
        special: FINITE, INF, NINF, NAN or UNDEFINED (this draw cannot say); None: all finite.
        digits: how the values are written, where known.
        hint: whether a keyed hash other than of a rounding took part.
        constant: the rational, for a constant.
        sum: the sum that a rounding closed here.
        members: for a maximum, the identities of its arguments, along one more axis.
    """

    p: Words | None
    q: Words | None
    special: Flags | None = None
    digits: Digits | None = None
    hint: bool = False
    constant: Fraction | None = None
    sum: Sum | None = None
    members: Words | None = None

    @property
    def identity(self) -> Words:
        """Return what hashes read: the residue modulo p, else modulo q."""
        return self.p if self.p is not None else self.q  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Sum:
    """An open sum: its exact value, and the multiset of its terms as two additive hashes.

    Attributes:
        rounding: what will close it.
        value: the exact sum.
        plus: sum of hash(term) over the nonzero terms.
        minus: sum of hash(-term).
        count: number of nonzero terms.
    """

    rounding: Rounding
    value: Residue
    plus: Words
    minus: Words
    count: Words


class FieldDomain:
    """The field domain of one draw: one field, random inputs, one set of keys.

    Args:
        field: the pair of primes.
        seed: selects inputs and keys.
        compares: whether the graphs compare values. Some residues are then taken for zero, by
            comparisons and as divisors alike.
    """

    def __init__(self, field: Field, seed: int, compares: bool = False) -> None:
        self.field, self.seed, self.compares = field, seed, compares
        self._known: dict[Format, list[Words]] = {}
        self._maps: dict[str, Callable[..., Residue]] = {
            "neg": self.neg,
            "add": self.add,
            "sub": lambda x, y: self.add(x, self.neg(y)),
            "mul": self.mul,
            "div": lambda x, y: self.mul(x, self.reciprocal(y)),
            "abs": self.abs,
            "max": lambda x, y: self._max_of([x, y]),
            "min": lambda x, y: self.neg(self._max_of([self.neg(x), self.neg(y)])),
            "relu": lambda x: self._max_of([x, self.number(0)]),
            "clamp": self._clamp,
            "sqrt": self.sqrt,
            "rsqrt": lambda x: self.reciprocal(self.sqrt(x)),
            "exp": self.exp,
            "exp2": lambda x: self.exp(self.mul(x, self.const(Const("ln2")))),
            "expm1": lambda x: self.add(self.exp(x), self.number(-1)),
            "log": self.log,
            "log2": lambda x: self.mul(self.log(x), self.const(Const("log2e"))),
            "log1p": lambda x: self.log(self.add(x, self.number(1))),
            "sigmoid": self._sigmoid,
            "silu": lambda x: self.mul(x, self._sigmoid(x)),
            "tanh": self._tanh,
            "softplus": lambda x: self.log(self.add(self.exp(x), self.number(1))),
            "gelu": self._gelu,
            "gelu_tanh": self._gelu_tanh,
            "sign": self._sign,
            "less": lambda x, y: self._compare(x, y, lambda sign: sign == 1),
            "less_equal": lambda x, y: self._compare(x, y, lambda sign: sign <= 1),
            "equal": lambda x, y: self._compare(x, y, lambda sign: sign == 0),
            "select": self._select,
        }

    # Leaves

    def input(self, node: Input) -> Residue:
        """Draw residues; nonzero, and squares where the format has no sign."""
        rng = np.random.default_rng([key_of(node.name) & 0xFFFFFFFF, self.seed])
        p = rng.integers(1, self.field.p, node.shape, np.uint64)
        q = rng.integers(1, self.field.q, node.shape, np.uint64)
        if not node.format.signed:
            p = p * p % np.uint64(self.field.p)
        self._note(p, node.format)
        return Residue(p, q, digits=Digits.of_format(node.format))

    def const(self, node: Const) -> Residue:
        """Return the residues of a constant; a named real is a random number."""
        value = node.value
        if isinstance(value, Fraction):
            return self.number(value)
        if isinstance(value, float):
            zero = np.zeros((), np.uint64)
            if value == 0:
                return self.number(0)
            code = NAN if value != value else INF if value > 0 else NINF
            return Residue(zero, zero, np.array(code, np.uint8), ZERO)
        square = mix_int(key_of("ln2" if value == "log2e" else value, self.seed), 1) % self.field.p
        p, q = square * square % self.field.p, mix_int(square, 2) % self.field.q
        if value in ("ln2", "log2e"):
            q = self.field.ln2
        if value == "log2e":
            p, q = pow(p, -1, self.field.p), pow(q, -1, self.field.q)
        return Residue(np.array(p, np.uint64), np.array(q, np.uint64))

    def number(self, value: int | Fraction) -> Residue:
        """Return the residues of a rational."""
        value = Fraction(value)
        pair = self.field.rational(value.numerator, value.denominator)
        if pair is None:
            zero = np.zeros((), np.uint64)
            return Residue(zero, zero, np.array(UNDEFINED, np.uint8))
        p, q = (np.array(x, np.uint64) for x in pair)
        return Residue(p, q, digits=Digits.of_number(value), constant=value)

    # Elementwise functions

    def map(self, fn: str, xs: tuple[Residue, ...]) -> Residue:
        """Apply an elementwise function; one without a law of its own is a keyed hash."""
        known = self._maps.get(fn)
        return known(*xs) if known else self._hashed(fn, *xs)

    def neg(self, x: Residue) -> Residue:
        """Return -x."""
        out = Residue(
            None if x.p is None else _negative(x.p, self.field.p),
            None if x.q is None else _negative(x.q, self.field.q),
            None if x.special is None else _NEG[x.special],
            None if x.digits is None else x.digits.plain(),
            x.hint,
            None if x.constant is None else -x.constant,
        )
        if x.sum is not None and x.sum.rounding.format.kind == "float":
            value = self.neg(x.sum.value)
            flipped = Sum(x.sum.rounding, value, x.sum.minus, x.sum.plus, x.sum.count)
            return replace(out, sum=flipped)
        return out

    def add(self, x: Residue, y: Residue) -> Residue:
        """Return x + y."""
        special = None
        if x.special is not None or y.special is not None:
            special = _ADD[_codes(x), _codes(y)]
        return self._finish(
            _both(x.p, y.p, lambda a, b: (a + b) % np.uint64(self.field.p)),
            _both(x.q, y.q, lambda a, b: (a + b) % np.uint64(self.field.q)),
            special,
            None if x.digits is None or y.digits is None else x.digits + y.digits,
            x.hint or y.hint,
        )

    def mul(self, x: Residue, y: Residue) -> Residue:
        """Return x * y."""
        special = None
        if x.special is not None or y.special is not None:
            special = self._product_codes(x, y)
        out = self._finish(
            _both(x.p, y.p, lambda a, b: a * b % np.uint64(self.field.p)),
            _both(x.q, y.q, lambda a, b: a * b % np.uint64(self.field.q)),
            special,
            None if x.digits is None or y.digits is None else x.digits * y.digits,
            x.hint or y.hint,
        )
        for a, b in ((x, y), (y, x)):
            if a.members is not None and b.constant is not None and b.constant > 0:
                scaled = a.members * b.identity % np.uint64(self.field.p)
                kept = np.where(a.members == SENTINEL, SENTINEL, scaled)
                return self._of_members(kept, out, out.q)
        return out

    def reciprocal(self, x: Residue) -> Residue:
        """Return 1 / x; zero has none in this draw."""
        p = None if x.p is None else self.field.inverse(x.p)
        q = None if x.q is None else self.field.inverse(x.q, self.field.q)
        special = _codes(x)
        finite_zero = (special == FINITE) & ((p == 0) if p is not None else (q == 0))
        if p is not None and q is not None:
            finite_zero |= (special == FINITE) & (q == 0)
        if self.compares and p is not None and x.p is not None and x.constant is None:
            magnitude = x.p * self.field.sign(x.p) % np.uint64(self.field.p)
            finite_zero |= (special == FINITE) & self._taken_for_zero(magnitude)
        special = np.where(finite_zero, UNDEFINED, special)
        special = np.where((special == INF) | (special == NINF), FINITE, special).astype(np.uint8)
        constant = 1 / x.constant if x.constant else None
        digits = None if constant is None else Digits.of_number(constant)
        return replace(self._finish(p, q, special, digits, x.hint), constant=constant)

    def abs(self, x: Residue) -> Residue:
        """Return chi(x) x."""
        if x.p is None:
            return self._hashed("abs", x)
        sign = self.field.sign(x.p)
        p = x.p * sign % np.uint64(self.field.p)
        q = None if x.q is None else np.where(sign == 1, x.q, _negative(x.q, self.field.q))
        special = None if x.special is None else np.where(x.special == NINF, INF, x.special)
        digits = None if x.digits is None else x.digits.plain()
        return self._finish(p, q, special, digits, x.hint)

    def sqrt(self, x: Residue) -> Residue:
        """Return the root that is a square; a non-square has none in this draw."""
        if x.p is None:
            return self._hashed("sqrt", x)
        special = _codes(x)
        bad = (special == FINITE) & (self.field.sign(x.p) == self.field.p - 1)
        special = np.where(bad, UNDEFINED, np.where(special == NINF, NAN, special))
        return self._finish(self.field.sqrt(x.p), None, special, None, x.hint)

    def exp(self, x: Residue) -> Residue:
        """Return GENERATOR^(x mod q)."""
        special = _codes(x)
        hint = x.hint
        if x.q is not None:
            p = self.field.exp(x.q)
        else:
            hashed = mix(x.identity, key_of("exp", self.seed)) % np.uint64(self.field.p)
            p, hint = hashed * hashed % np.uint64(self.field.p), True
        p = np.where(special == NINF, np.uint64(0), p)
        special = np.where(special == NINF, FINITE, special)
        return self._finish(p, None, special, None, hint)

    def log(self, x: Residue) -> Residue:
        """Return the exponent whose exponential is x; it has no residue modulo p."""
        if x.p is None:
            return self._hashed("log", x)
        special = _codes(x)
        negative = (special == FINITE) & (self.field.sign(x.p) == self.field.p - 1)
        zero = (special == FINITE) & (x.p == 0)
        q = self.field.log(np.where(negative | zero | (special != FINITE), np.uint64(1), x.p))
        special = np.where(negative, UNDEFINED, np.where(special == NINF, NAN, special))
        return self._finish(None, q, np.where(zero, NINF, special), None, x.hint)

    def _sigmoid(self, x: Residue) -> Residue:
        return self.reciprocal(self.add(self.exp(self.neg(x)), self.number(1)))

    def _tanh(self, x: Residue) -> Residue:
        twice = self._sigmoid(self.add(x, x))
        return self.add(self.add(twice, twice), self.number(-1))

    def _gelu(self, x: Residue) -> Residue:
        inner = self._hashed("erf", self.mul(x, self.reciprocal(self.sqrt(self.number(2)))))
        return self.mul(self.mul(x, self.number(Fraction(1, 2))), self.add(inner, self.number(1)))

    def _gelu_tanh(self, x: Residue) -> Residue:
        cube = self.mul(self.mul(x, x), x)
        inner = self.add(x, self.mul(cube, self.number(Fraction(44715, 1000000))))
        root = self.sqrt(self.mul(self.number(2), self.reciprocal(self.const(Const("pi")))))
        tanh = self._tanh(self.mul(root, inner))
        return self.mul(self.mul(x, self.number(Fraction(1, 2))), self.add(tanh, self.number(1)))

    def _sign(self, x: Residue) -> Residue:
        if x.p is None:
            return self._hashed("sign", x)
        sign = self._sign_or_zero(x.p)
        q = np.where(sign > 1, np.uint64(self.field.q - 1), sign)
        return self._finish(sign, q, x.special, Digits.of_number(Fraction(1)), True)

    def _sign_or_zero(self, x: Words) -> Words:
        """Return chi(x), and 0 also for the residues that are taken for zero in this draw.

        A random residue is never zero, but what a comparison tells apart may be.
        """
        sign = self.field.sign(x)
        return np.where(self._taken_for_zero(x * sign % np.uint64(self.field.p)), 0, sign)

    def _taken_for_zero(self, magnitude: Words) -> Flags:
        return mix(magnitude, key_of("zero", self.seed)) & np.uint64(3) == 0

    def _compare(self, x: Residue, y: Residue, test: Callable[[Words], Flags]) -> Residue:
        gap = self.add(y, self.neg(x))
        if gap.p is None:
            return self._hashed("compare", gap)
        bit = test(self._sign_or_zero(gap.p)).astype(np.uint64)
        return self._finish(bit, bit, gap.special, Digits.of_number(Fraction(1)), True)

    def _select(self, condition: Residue, x: Residue, y: Residue) -> Residue:
        chosen = condition.identity != 0
        special = np.where(chosen, _codes(x), _codes(y))
        special = np.where(_codes(condition) != FINITE, UNDEFINED, special)

        def pick(a: Words, b: Words) -> Words:
            return np.where(chosen, a, b)

        p, q = _both(x.p, y.p, pick), _both(x.q, y.q, pick)
        return self._finish(p, q, special, join(x.digits, y.digits), True)

    def _hashed(self, fn: str, *xs: Residue) -> Residue:
        """Return a keyed hash of function and arguments; erf, sin and rounding are odd."""
        if fn in ("erf", "sin"):
            p = self._odd(xs[0].identity, key_of(fn, self.seed))
        else:
            p = np.zeros((), np.uint64)
            for i, x in enumerate(xs):
                p = mix(np.asarray(x.identity) + np.uint64(0), key_of(fn, i, self.seed)) ^ p
            p = mix(p, key_of(fn, self.seed)) % np.uint64(self.field.p)
        special = _codes(*xs)
        special = np.where(special == FINITE, FINITE, UNDEFINED)
        return self._finish(p, self._companion(p), special, None, True)

    # Rounding

    def round(self, x: Residue, rounding: Rounding) -> Residue:
        """Return the rounding of x as a keyed hash, or x where it is known to be kept."""
        if x.digits is not None and x.digits.fits(rounding):
            return x
        digits = Digits.of_format(rounding.format)
        key = self.rounding_key(rounding)
        if x.members is not None and rounding.mode != Mode.STOCHASTIC:
            rounded = self._rounded(
                np.where(x.members == SENTINEL, np.uint64(0), x.members), key, rounding
            )
            kept = np.where(x.members == SENTINEL, SENTINEL, rounded)
            out = replace(x, digits=digits, sum=None, constant=None)
            return self._of_members(kept, out, None)
        p = self._rounded(x.identity, key, rounding)
        q: Words | None = self._companion(p)
        if x.p is not None and (kept := self._kept(x.p, rounding)).any():
            p = np.where(kept, x.p, p)
            q = None if x.q is None else np.where(kept, x.q, q)
        self._note(p, rounding.format)
        return self._finish(p, q, x.special, digits, x.hint)

    def _note(self, p: Words, fmt: Format) -> None:
        """Note residues of values of a format."""
        self._known.setdefault(fmt, []).append(np.asarray(p).reshape(-1))

    def _kept(self, p: Words, rounding: Rounding) -> Flags:
        """Return which residues are those of values that the rounding keeps.

        Equal residues are equal numbers: `sqrt(x * x)` is known to be a value of x's format.
        """
        values = [
            array
            for fmt, arrays in self._known.items()
            if Digits.of_format(fmt).fits(rounding)
            for array in arrays
            if array.size <= MOST_KNOWN
        ]
        if not values or p.size > MOST_KNOWN:
            return np.zeros((), np.bool_)
        known = np.concatenate(values)
        modulus = np.uint64(self.field.p)
        return np.isin(p, known) | np.isin(_negative(p, self.field.p), known) & (p < modulus)

    def rounding_key(self, rounding: Rounding) -> int:
        """Return the key of a rounding: format and mode.

        Overflow and subnormals have no part in it: on ordinary runs nothing overflows and no
        nonzero result is subnormal, so roundings that differ only there give the same value.
        """
        return key_of("round", rounding.format.name, str(rounding.mode), rounding.seed, self.seed)

    def _rounded(self, x: Words, key: int, rounding: Rounding) -> Words:
        if _is_odd(rounding):
            return self._odd(x, key)
        return np.where(x == 0, x, mix(x, key) % np.uint64(self.field.p))

    def _odd(self, x: Words, key: int) -> Words:
        """Return an odd hash that keeps zero and the sign: chi(x) h(|x|)^2."""
        p = np.uint64(self.field.p)
        sign = self.field.sign(x)
        hashed = mix(x * sign % p, key) % p
        return hashed * hashed % p * sign % p

    def _companion(self, p: Words) -> Words:
        """Return a residue modulo q that is an odd function of a hashed residue modulo p."""
        modulus = np.uint64(self.field.p)
        sign = self.field.sign(p)
        q = mix(p * sign % modulus, key_of("companion", self.seed)) % np.uint64(self.field.q)
        q = np.where(p == 0, np.uint64(0), q)
        return np.where(sign > 1, _negative(q, self.field.q), q)

    def clamp(self, x: Residue, rounding: Rounding) -> Residue:
        """Return x limited to the finite range of the format."""
        fmt = rounding.format
        if x.digits is not None and x.digits.bound <= fmt.max_finite and fmt.signed:
            return x
        return self._clamp(x, self.number(fmt.min_finite), self.number(fmt.max_finite))

    def _clamp(self, x: Residue, low: Residue, high: Residue) -> Residue:
        above = self._max_of([x, low])
        return self.neg(self._max_of([self.neg(above), self.neg(high)]))

    # Maximum

    def extreme(self, op: str, x: Residue, axis: int) -> Residue:
        """Return the maximum or minimum along an axis."""
        if op == "min":
            return self.neg(self.extreme("max", self.neg(x), axis))
        members = np.moveaxis(self._members(x), axis, -2)
        members = members.reshape(*members.shape[:-2], -1)
        codes = _codes(x)
        codes = np.broadcast_to(codes, x.identity.shape)
        special = _extreme_codes([np.take(codes, i, axis) for i in range(codes.shape[axis])])
        q = None if x.q is None else np.expand_dims(_first(x.q, codes, axis), axis)
        base = Residue(x.p, x.q, np.expand_dims(special, axis), x.digits, True)
        return self._of_members(np.expand_dims(members, axis), base, q)

    def _max_of(self, xs: list[Residue]) -> Residue:
        shape = np.broadcast_shapes(*(x.identity.shape for x in xs))
        parts = []
        for x in xs:
            members = self._members(x)
            parts.append(np.broadcast_to(members, (*shape, members.shape[-1])))
        special = _extreme_codes([np.broadcast_to(_codes(x), shape) for x in xs])
        q = _both(xs[0].q, xs[1].q, lambda a, b: np.where(_codes(xs[0]) == NINF, b, a))
        base = Residue(xs[0].p, q, special, join(*(x.digits for x in xs)), True)
        return self._of_members(np.concatenate(parts, axis=-1), base, q)

    def _members(self, x: Residue) -> Words:
        if x.members is not None:
            return x.members
        return np.where(_codes(x) == NINF, SENTINEL, x.identity)[..., None]

    def _of_members(self, members: Words, base: Residue, q: Words | None) -> Residue:
        """Return the maximum of a set: its only member, or a keyed hash of the set."""
        members = np.sort(members, axis=-1)
        again = members[..., 1:] == members[..., :-1]
        members[..., 1:][again] = SENTINEL
        members = np.sort(members, axis=-1)
        real = members != SENTINEL
        count = real.sum(axis=-1)
        members = members[..., : max(int(count.max(initial=0)), 1)]
        real = real[..., : members.shape[-1]]
        p = np.uint64(self.field.p)
        hashed = mix(members, key_of("max", self.seed)) * real.astype(np.uint64)
        value = mix(hashed.sum(axis=-1, dtype=np.uint64), key_of("set", self.seed)) % p
        signs = self.field.sign(np.where(real, members, np.uint64(0)) % p)
        all_negative = ((signs > 1) | ~real).all(axis=-1)
        square = value * value % p
        value = np.where(all_negative, _negative(square, self.field.p), square)
        value = np.where(count == 1, members[..., 0], value)
        companion = self._companion(value)
        exponent = companion if q is None else np.where(count == 1, q, companion)
        out = self._finish(value, exponent, base.special, base.digits, True)
        return replace(out, members=members)

    # Sums

    def total(self, x: Residue, axis: int) -> Residue:
        """Return the exact sum along an axis."""

        def along(a: Words | None, modulus: int) -> Words | None:
            if a is None:
                return None
            return np.asarray(a.sum(axis=axis, keepdims=True, dtype=np.uint64) % np.uint64(modulus))

        special = None
        if x.special is not None:
            codes = np.broadcast_to(x.special, x.identity.shape)
            special = np.zeros((), np.uint8)
            for i in range(codes.shape[axis]):
                special = _ADD[special, np.take(codes, [i], axis)]
        terms = x.identity.shape[axis]
        digits = None if x.digits is None else x.digits.times(terms)
        if terms == 0:
            digits = ZERO
        return self._finish(
            along(x.p, self.field.p), along(x.q, self.field.q), special, digits, x.hint
        )

    def open(self, x: Residue, rounding: Rounding) -> Sum:
        """Return x as terms of a sum; a closed sum of the same rounding opens again."""
        if x.sum is not None and self.rounding_key(x.sum.rounding) == self.rounding_key(rounding):
            return x.sum
        value = replace(x, sum=None, members=None, constant=None)
        some = (np.asarray(x.identity) != 0).astype(np.uint64)
        modulus = self.field.p if x.p is not None else self.field.q
        key = key_of("term", self.seed)
        plus = mix(np.asarray(x.identity) + np.uint64(0), key) * some
        minus = mix(_negative(np.asarray(x.identity), modulus), key) * some
        return Sum(rounding, value, plus, minus, some)

    def merge(self, sums: list[Sum]) -> Sum:
        """Return the sum of open sums."""
        out = sums[0]
        for s in sums[1:]:
            value = self.add(out.value, s.value)
            out = Sum(
                out.rounding, value, out.plus + s.plus, out.minus + s.minus, out.count + s.count
            )
        return out

    def gather(self, x: Sum, axis: int) -> Sum:
        """Return the open sum along an axis of open sums."""

        def along(a: Words) -> Words:
            return np.asarray(a.sum(axis=axis, keepdims=True, dtype=np.uint64))

        value = self.total(x.value, axis)
        single = np.broadcast_to(x.count, x.value.identity.shape)
        shape = x.value.identity.shape
        plus, minus = np.broadcast_to(x.plus, shape), np.broadcast_to(x.minus, shape)
        return Sum(x.rounding, value, along(plus), along(minus), along(single))

    def close(self, x: Sum, rounding: Rounding) -> Residue:
        """Return the value of an open sum: a keyed hash of the multiset of its terms."""
        alone = self.round(x.value, rounding)
        p = np.asarray(x.value.identity)
        key = key_of("sum", self.rounding_key(rounding))
        hashed = self._multiset(p, x.plus, x.minus, key, _is_odd(rounding))
        value = np.where(p == 0, p, hashed)
        one = x.count <= 1
        q = None
        if alone.q is not None:
            q = np.where(one, alone.q, self._companion(value))
        value = np.where(one, alone.identity, value)
        digits = Digits.of_format(rounding.format)
        if (
            alone.digits is not None
            and alone.digits.count <= digits.count
            and x.count.max(initial=0) <= 1
        ):
            digits = alone.digits
        out = self._finish(value, q, x.value.special, digits, x.value.hint)
        return replace(out, sum=x)

    def _multiset(self, total: Words, plus: Words, minus: Words, key: int, odd: bool) -> Words:
        """Return a hash of a multiset; an odd one keeps the sign of its sum."""
        p = np.uint64(self.field.p)
        sign = self.field.sign(total)
        first, second = np.where(sign > 1, minus, plus), np.where(sign > 1, plus, minus)
        hashed = mix(mix(first, key) ^ (second << np.uint64(1)), key) % p
        square = hashed * hashed % p * sign % p
        forth = mix(mix(plus, key) ^ (minus << np.uint64(1)), key) % p
        if not odd:
            return forth
        back = mix(mix(minus, key) ^ (plus << np.uint64(1)), key) % p
        return np.where(total == 0, (forth + p - back) % p, square)

    def tree(self, x: Residue, axis: int, schedule: Schedule, rounding: Rounding) -> Residue:
        """Return the sum along an axis, with a keyed hash at every node of the tree."""
        exact = self.total(x, axis)
        leaves = np.moveaxis(np.broadcast_to(x.identity, x.identity.shape), axis, 0)
        k, acc = leaves.shape[0], rounding.format.short
        nested = any(isinstance(level, Fused | AnyOrder) for level in levels(schedule))
        digits = x.digits
        if leaves[:1].size <= SCALAR_LIMIT and not nested:
            columns = leaves.reshape(k, -1).T.tolist()
            sums = [
                fold(schedule, k, acc, _ScalarTree(self, column, digits, rounding))[0]
                for column in columns
            ]
            value = np.array(sums, np.uint64).reshape(leaves.shape[1:])
        else:
            algebra = _ArrayTree(self, leaves, digits, rounding)
            value = np.asarray(fold(schedule, k, acc, algebra)[0])
        value = np.expand_dims(np.broadcast_to(value, leaves.shape[1:]), axis)
        q = self._companion(value)
        if exact.q is not None and exact.p is not None:
            q = np.where(value == exact.p, exact.q, q)
        digits = Digits.of_format(rounding.format)
        return self._finish(value, q, exact.special, digits, x.hint)

    # Views and results

    def view(self, node: View, xs: tuple[Residue, ...]) -> Residue:
        """Return a view of residues and of all that goes with them."""

        def part(get: Callable[[Residue], Any], fill: Callable[[Residue], Any]) -> Any:
            parts = [get(x) for x in xs]
            if all(a is None for a in parts):
                return None
            full = [
                np.broadcast_to(fill(x) if a is None else a, x.identity.shape)
                for x, a in zip(xs, parts, strict=True)
            ]
            return view_array(node, tuple(full))

        def missing(get: Callable[[Residue], Any]) -> Any:
            return None if any(get(x) is None for x in xs) else part(get, get)

        out = Residue(
            missing(lambda x: x.p),
            missing(lambda x: x.q),
            part(lambda x: x.special, lambda x: np.zeros((), np.uint8)),
            join(*(x.digits for x in xs)),
            any(x.hint for x in xs),
            xs[0].constant if len(xs) == 1 else None,
        )
        if len(xs) == 1 and xs[0].sum is not None:
            s = xs[0].sum
            shape = xs[0].identity.shape
            plus, minus, count = (
                view_array(node, (np.broadcast_to(a, shape),)) for a in (s.plus, s.minus, s.count)
            )
            inner = replace(
                s.value, p=None if s.value.p is None else np.broadcast_to(s.value.p, shape)
            )
            out = replace(out, sum=Sum(s.rounding, self.view(node, (inner,)), plus, minus, count))
        if len(xs) == 1 and xs[0].members is not None:
            out = replace(out, members=self._view_members(node, xs[0]))
        return out

    def _view_members(self, node: View, x: Residue) -> Words:
        assert x.members is not None
        columns = [
            view_array(node, (np.broadcast_to(x.members[..., i], x.identity.shape),))
            for i in range(x.members.shape[-1])
        ]
        return np.stack(columns, axis=-1)

    def _finish(
        self,
        p: Words | None,
        q: Words | None,
        special: Flags | None,
        digits: Digits | None,
        hint: bool,
    ) -> Residue:
        if special is not None:
            if not np.any(special):
                special = None
            else:
                special = np.asarray(special, np.uint8)
                finite = special == FINITE
                p = None if p is None else np.where(finite, p, np.uint64(0))
                q = None if q is None else np.where(finite, q, np.uint64(0))
        return Residue(p, q, special, digits, hint)

    def _product_codes(self, x: Residue, y: Residue) -> Flags:
        signs = []
        for z in (x, y):
            codes = _codes(z)
            sign = self.field.sign(np.asarray(z.identity))
            finite = np.where(sign > 1, -1, sign.astype(np.int64))
            signs.append(np.where(codes == INF, 1, np.where(codes == NINF, -1, finite)))
        cx, cy = _codes(x), _codes(y)
        product = signs[0] * signs[1]
        infinite = (cx == INF) | (cx == NINF) | (cy == INF) | (cy == NINF)
        out = np.where(
            infinite, np.where(product > 0, INF, np.where(product < 0, NINF, NAN)), FINITE
        )
        out = np.where((cx == NAN) | (cy == NAN), NAN, out)
        return np.where((cx == UNDEFINED) | (cy == UNDEFINED), UNDEFINED, out).astype(np.uint8)


class _ScalarTree:
    """The algebra of BITS on Python integers, for long sums with few outputs."""

    def __init__(
        self, domain: FieldDomain, leaves: list[int], digits: Digits | None, acc: Rounding
    ) -> None:
        self.domain, self.leaves, self.digits, self.acc = domain, leaves, digits, acc
        self.p, self.q = domain.field.p, domain.field.q
        self.formats: dict[str, tuple[Rounding, int, Digits]] = {}

    def _format(self, fmt: str) -> tuple[Rounding, int, Digits]:
        if fmt not in self.formats:
            rounding = self.acc if fmt == self.acc.format.short else Rounding.of(fmt)
            key = self.domain.rounding_key(rounding)
            self.formats[fmt] = rounding, key, Digits.of_format(rounding.format)
        return self.formats[fmt]

    def zero(self, fmt: str) -> tuple[int, Digits | None]:
        return 0, ZERO

    def leaf(self, i: int) -> tuple[int, Digits | None]:
        return self.leaves[i], self.digits

    def convert(self, value: tuple[int, Digits | None], fmt: str) -> tuple[int, Digits | None]:
        rounding, key, digits = self._format(fmt)
        x, known = value
        if known is not None and known.fits(rounding):
            return value
        sign = pow(x, self.q, self.p)
        if sign == 0:
            return 0, ZERO
        if not _is_odd(rounding):
            return mix_int(x, key) % self.p, digits
        hashed = mix_int(x if sign == 1 else self.p - x, key) % self.p
        square = hashed * hashed % self.p
        return (square if sign == 1 else self.p - square), digits

    def add(
        self, a: tuple[int, Digits | None], b: tuple[int, Digits | None], fmt: str
    ) -> tuple[int, Digits | None]:
        if a[0] == 0:
            return self.convert(b, fmt)
        if b[0] == 0:
            return self.convert(a, fmt)
        return self.convert(((a[0] + b[0]) % self.p, None), fmt)

    def fused(self, acc: Any, terms: list[Any], machine: str, fmt: str) -> Any:
        raise AssertionError("a step of a matrix unit is folded on arrays")

    def any_order(self, values: list[Any], fmt: str) -> Any:
        raise AssertionError("a set of orders is folded on arrays")


class _ArrayTree(_ScalarTree):
    """The same algebra on arrays, one slab of all outputs for each element of the sum."""

    def __init__(
        self, domain: FieldDomain, leaves: Words, digits: Digits | None, acc: Rounding
    ) -> None:
        super().__init__(domain, [], digits, acc)
        self.slabs = leaves

    def zero(self, fmt: str) -> Any:
        return np.zeros(self.slabs.shape[1:], np.uint64), ZERO

    def leaf(self, i: int) -> Any:
        return self.slabs[i], self.digits

    def convert(self, value: Any, fmt: str) -> Any:
        rounding, key, digits = self._format(fmt)
        x, known = value
        if known is not None and known.fits(rounding):
            return value
        return self.domain._rounded(x, key, rounding), digits

    def add(self, a: Any, b: Any, fmt: str) -> Any:
        _, _, digits = self._format(fmt)
        out, _ = self.convert(((a[0] + b[0]) % np.uint64(self.p), None), fmt)
        out = np.where(a[0] == 0, self.convert(b, fmt)[0], out)
        out = np.where(b[0] == 0, self.convert(a, fmt)[0], out)
        return out, digits

    def fused(self, acc: Any, terms: list[Any], machine: str, fmt: str) -> Any:
        odd = unit_of(machine).align == "truncate"
        return self._step([acc, *terms], f"step {machine}", fmt, odd)

    def any_order(self, values: list[Any], fmt: str) -> Any:
        return self._step(values, "any order", fmt, _is_odd(self._format(fmt)[0]))

    def _step(self, values: list[Any], name: str, fmt: str, odd: bool) -> Any:
        rounding, own, digits = self._format(fmt)
        key = key_of("term", self.domain.seed)
        stack = np.stack([value for value, _ in values])
        some = (stack != 0).astype(np.uint64)
        plus = (mix(stack, key) * some).sum(axis=0, dtype=np.uint64)
        minus = (mix(_negative(stack, self.p), key) * some).sum(axis=0, dtype=np.uint64)
        total = stack.sum(axis=0, dtype=np.uint64) % np.uint64(self.p)
        step = key_of(name, own)
        out = self.domain._multiset(total, plus, minus, step, odd)
        count = some.sum(axis=0)
        known = join(*(known for _, known in values))
        if known is not None and known.fits(rounding):
            out = np.where(count == 1, total, out)
        return np.where(count == 0, np.uint64(0), out), digits


def _is_odd(rounding: Rounding) -> bool:
    symmetric = rounding.mode in (
        Mode.NEAREST_EVEN,
        Mode.NEAREST_AWAY,
        Mode.TOWARD_ZERO,
        Mode.TO_ODD,
    )
    return symmetric and rounding.format.kind == "float"


def _negative(x: Words, modulus: int) -> Words:
    return np.where(x == 0, x, np.uint64(modulus) - x)


def _codes(*xs: Residue) -> Flags:
    out = np.zeros((), np.uint8)
    for x in xs:
        out = np.maximum(out, np.zeros((), np.uint8) if x.special is None else x.special)
    return out


def _both(x: Words | None, y: Words | None, fn: Callable[[Words, Words], Words]) -> Words | None:
    return None if x is None or y is None else np.asarray(fn(x, y))


def _extreme_codes(codes: list[Flags]) -> Flags:
    stack = np.stack(codes)
    out = np.where((stack == NINF).all(axis=0), NINF, FINITE)
    for code in (INF, NAN, UNDEFINED):
        out = np.where((stack == code).any(axis=0), code, out)
    return out.astype(np.uint8)


def _first(q: Words, codes: Flags, axis: int) -> Words:
    """Return the first element along an axis that is not -inf."""
    at = np.expand_dims(np.argmax(codes != NINF, axis=axis), axis)
    return np.take_along_axis(np.broadcast_to(q, codes.shape), at, axis).squeeze(axis)
