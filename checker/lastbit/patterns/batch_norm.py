"""Find a batch norm behind a matrix product, and fold it into weights and bias.

At inference the statistics are constants, so (c - mean) * scale + shift is an affine function of
each column of c = x w + b, and x (w * scale) + ((b - mean) * scale + shift) is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from lastbit.graph import Map, Node, Round, apply, const
from lastbit.patterns import find, is_map, replace, same_format, unrounded
from lastbit.patterns.products import Product, defined, product_of
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Site

NEED = "the value is (c - mean) * scale + shift for the columns of a matrix product c"

FOLDABLE = """
x: f32[M, K]
w: f32[K, N]
b: f32[N]
mean: f32[N]
k: f32[N]                                  # gain / sqrt(variance + eps)
shift: f32[N]
c: f32 = matmul(x, w) + b acc f32 seq
y: f32 = (c - mean) * k + shift
"""


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """A batch norm of a matrix product.

    Attributes:
        site: where.
        node: the affine function, in the definition of the site.
        product: the matrix product.
        bias: what is added to the product, or None.
        mean: what the norm subtracts.
        scale: what it multiplies with.
        shift: what it adds.
    """

    site: Site
    node: Map
    product: Product
    bias: Node | None
    mean: Node
    scale: Node
    shift: Node

    def folded(self, bias: Node | None, rounding: Rounding) -> Edits:
        """Return the norm as a product of scaled weights, and one bias.

        Args:
            bias: the bias of the product, None for none.
            rounding: of the new weights and the new bias.
        """
        weight = Round(apply("mul", self.product.b, self.scale), rounding)
        centred = apply("sub", const(0) if bias is None else bias, self.mean)
        added = Round(apply("add", apply("mul", centred, self.scale), self.shift), rounding)
        new = apply("add", self.product.of(self.product.a, weight), added)
        root = self.site.node
        return {self.site.name: same_format(root, replace(root, self.node, new))}


def batch_norm_at(site: Site) -> BatchNorm:
    """Return the batch norm at a site.

    Raises:
        MismatchError: there is none.
    """
    for node in find(site.node, Map, lambda node: is_map(node, "add")):
        for scaled, shift in (node.xs, node.xs[::-1]):
            found = _affine(site, node, scaled, shift)
            if found is not None:
                return found
    raise MismatchError(NEED)


def _affine(site: Site, node: Map, scaled: Node, shift: Node) -> BatchNorm | None:
    if not (isinstance(scaled, Map) and scaled.fn == "mul"):
        return None
    for centred, scale in (scaled.xs, scaled.xs[::-1]):
        if not (isinstance(centred, Map) and centred.fn == "sub"):
            continue
        read, mean = centred.xs
        product, bias = _biased(unrounded(defined(site, read)))
        if product is None:
            continue
        columns = product.node.shape[1]
        if all(x.shape in ((columns,), (1, columns)) for x in (mean, scale, shift)):
            return BatchNorm(site, node, product, bias, mean, scale, shift)
    return None


def _biased(node: Node) -> tuple[Product | None, Node | None]:
    """Return the product and the bias that a node adds up; None for what there is not."""
    if isinstance(node, Map) and node.fn == "add":
        for part, bias in (node.xs, node.xs[::-1]):
            product = product_of(part)
            if product is not None and bias.shape in (part.shape[1:], (1, *part.shape[1:])):
                return product, bias
    return product_of(node), None
