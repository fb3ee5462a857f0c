"""Find matrix products in definitions, and what scales them, and write others in their place."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lastbit.graph import (
    Const,
    Input,
    Map,
    Node,
    Reduce,
    Round,
    View,
    apply,
    matmul,
    native_rounding,
)
from lastbit.patterns import find, is_map, replace, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Site

NO_PRODUCT = "the value holds one matrix product"
NO_SCALE = "the value is a matrix product times one number"
NO_ROW_SCALE = "the value is a matrix product times a number for each row"


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product in a definition.

    Attributes:
        node: the product, of shape [M, N].
        a: the left operand, of shape [M, K].
        b: the right operand, of shape [K, N].
        sum: the sum in it.
    """

    node: Node
    a: Node
    b: Node
    sum: Reduce

    def of(self, a: Node, b: Node) -> Node:
        """Return the product of other operands, summed in the same way."""
        return matmul(a, b, self.sum.schedule, self.sum.acc)


def product_of(node: Node) -> Product | None:
    """Return the matrix product that a node is, or None."""
    match node:
        case View(
            kind="reshape",
            xs=(
                Reduce(
                    op="sum", x=Map(fn="mul", xs=(View(xs=(a,)), View(xs=(View(xs=(b,)),))))
                ) as total,
            ),
        ) if len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[0]:
            again = matmul(a, b, total.schedule, total.acc)
            return Product(node, a, b, total) if again.key == node.key else None
    return None


def products_in(root: Node) -> list[Product]:
    """Return the matrix products in a definition, arguments first."""
    found = (product_of(node) for node in find(root, View))
    return [product for product in found if product is not None]


def product_in(root: Node, need: str = NO_PRODUCT) -> Product:
    """Return the one matrix product in a definition.

    Raises:
        MismatchError: there is none, or more than one; the text is `need`.
    """
    found = products_in(root)
    if len(found) != 1:
        raise MismatchError(need)
    return found[0]


def defined(site: Site, node: Node) -> Node:
    """Return the definition of the value that a node reads by name, or the node itself."""
    if isinstance(node, Input) and not site.program.is_input(node.name):
        return site.definition(node.name)
    return node


def product_behind(site: Site, node: Node) -> Product | None:
    """Return the matrix product that a node is, behind its name and its rounding, or None."""
    return product_of(unrounded(defined(site, node)))


@dataclass(frozen=True, slots=True)
class ScaledProduct:
    """A matrix product that is multiplied or divided by one number, or by one for each row.

    Attributes:
        site: where.
        node: the multiplication or division, in the definition of the site.
        scores: the definition of the product, its rounding included.
        product: the product in it.
        factor: the number by which it is multiplied.
    """

    site: Site
    node: Map
    scores: Node
    product: Product
    factor: Node

    @property
    def format(self) -> Rounding:
        """Return the rounding of the left operand.

        Raises:
            MismatchError: the left operand is not rounded.
        """
        rounding = native_rounding(self.product.a)
        if rounding is None:
            raise MismatchError("the left operand is rounded")
        return rounding

    def scaled_before(self) -> Edits:
        """Return the definition with the left operand scaled and rounded, and the product plain."""
        left = Round(apply("mul", self.product.a, self.factor), self.format)
        product = self.product.of(left, self.product.b)
        scores = replace(self.scores, self.product.node, product)
        return {self.site.name: replace(self.site.node, self.node, scores)}


def scaled_product(site: Site) -> ScaledProduct:
    """Return the product at a site that one number scales.

    Raises:
        MismatchError: there is none.
    """
    return _scaled(site, lambda by, product: math.prod(by.shape) == 1, NO_SCALE)


def row_scaled_product(site: Site) -> ScaledProduct:
    """Return the product at a site whose rows are scaled by a number each.

    Raises:
        MismatchError: there is none.
    """
    return _scaled(site, lambda by, product: by.shape == (product.a.shape[0], 1), NO_ROW_SCALE)


def _scaled(site: Site, fits: Callable[[Node, Product], bool], need: str) -> ScaledProduct:
    for node in find(site.node, Map, lambda node: is_map(node, "mul", "div")):
        for read, by in (node.xs, node.xs[::-1])[: 2 if node.fn == "mul" else 1]:
            product = product_behind(site, read)
            if product is not None and product.node.shape == node.shape and fits(by, product):
                factor = _reciprocal(by) if node.fn == "div" else by
                return ScaledProduct(site, node, defined(site, read), product, factor)
    raise MismatchError(need)


def _reciprocal(node: Node) -> Node:
    if isinstance(node, Const) and not isinstance(node.value, str | float) and node.value != 0:
        return Const(1 / node.value)
    return apply("div", 1, node)
