"""A small matrix product for compiled loops, with sums in registers.

    out = h W,     a step of a recurrence for the few rows of one thread

    h        rows, a multiple of ROWS of them                    (R, K), K numbers apart
    W        in panels of columns, as `panels` lays them out     (P, K, C)
    out      what is written                                     (R, P·C), P·C numbers apart

The product of a step is too small for BLAS, which would pack W each time. Here W is packed once per sequence, and a tile of ROWS rows by C
columns stays in twelve vector registers while K runs. Plain loops would store sums after every product, so the tile is written in LLVM
instructions on vectors of 32 bytes, which LLVM splits for the processor.
"""

from typing import Any

from torch import Tensor

from attentif.kernels.jit import Array, inline, jit, on_numba_import, parallel_for

ROWS, VECTORS, BYTES = 4, 3, 32  # a tile: rows, vectors in a row, bytes in a vector
BLOCK = 16  # rows of W laid out at a time


def panels(w: Tensor) -> Tensor:
    """Lay out (K, J) as (P, K, C): panels of C adjacent columns, zero-padded."""
    columns = VECTORS * BYTES // w.element_size()
    laid_out = w.new_empty(-(-w.shape[1] // columns), len(w), columns)
    parallel_for(_lay_out, len(laid_out), w.detach().numpy(), laid_out.numpy())
    return laid_out


@jit()
def _lay_out(start: int, stop: int, w: Array, laid_out: Array) -> None:
    K, J = w.shape
    columns = laid_out.shape[2]
    for panel in range(start, stop):
        used = min(columns, J - panel * columns)
        for first in range(0, K, BLOCK):  # few rows at a time, because w may be a transpose: then its columns are what lies together
            last = min(first + BLOCK, K)
            block = laid_out[panel, first:last]
            for column in range(used):
                source = w[first:last, panel * columns + column]
                for k in range(last - first):
                    block[k, column] = source[k]
            block[:, used:] = 0


@inline
def round_up_rows(rows: int) -> int:
    """Number of rows that buffers given to `multiply` must have."""
    return -(-rows // ROWS) * ROWS


@inline
def multiply(rows: int, h: Array, w: Array, out: Array) -> None:
    """out[:rows] = h[:rows] W in whole tiles, up to `round_up_rows(rows)` rows."""
    columns = w.shape[2]
    for panel in range(w.shape[0]):
        for row in range(0, rows, ROWS):
            tile(h[row:], w[panel], out[row:, panel * columns :])


def tile(h: Array, w: Array, out: Array) -> None:
    """out[:ROWS, :C] = h[:ROWS] w, for w (K, C). Callable only from compiled functions."""
    raise NotImplementedError


@on_numba_import
def _register_tile() -> None:
    from numba import extending, types

    def infer_types(_: Any, h: Any, w: Any, out: Any) -> Any:
        return types.void(h, w, out), _spell_out

    spelled_out = extending.intrinsic(infer_types)

    def for_arrays(h: Any, w: Any, out: Any) -> Any:
        return lambda h, w, out: spelled_out(h, w, out)

    extending.overload(tile, jit_options={"forceinline": True}, strict=False)(for_arrays)


def _spell_out(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Emit the tile as LLVM instructions: zeroed sums, a loop over K, stores."""
    from llvmlite import ir

    h, w, out = (context.make_array(kind)(context, builder, value) for kind, value in zip(signature.args, args, strict=True))
    number = context.get_data_type(signature.args[0].dtype)
    size = signature.args[0].dtype.bitwidth // 8
    lanes = BYTES // size
    vector, index = ir.VectorType(number, lanes), ir.IntType(64)
    nothing, first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    fused = ("contract",)  # one rounding for a product and its sum

    def row(array: Any, which: int) -> Any:
        """Where a row begins."""
        apart = builder.mul(builder.extract_value(array.strides, 0), index(which))
        return builder.bitcast(builder.gep(builder.bitcast(array.data, ir.IntType(8).as_pointer()), [apart]), number.as_pointer())

    def vector_at(begin: Any, place: Any) -> Any:
        return builder.bitcast(builder.gep(begin, [place]), vector.as_pointer())

    h_rows, panel, inner = [row(h, r) for r in range(ROWS)], row(w, 0), builder.extract_value(w.shape, 0)
    before, loop, after = builder.block, builder.append_basic_block("products"), builder.append_basic_block("done")
    builder.branch(loop)

    builder.position_at_end(loop)
    k = builder.phi(index)
    sums = [builder.phi(vector) for _ in range(ROWS * VECTORS)]
    start = builder.mul(k, index(VECTORS * lanes))
    columns = [builder.load(vector_at(panel, builder.add(start, index(v * lanes))), align=size) for v in range(VECTORS)]
    totals = []
    for r in range(ROWS):
        one = builder.insert_element(nothing, builder.load(builder.gep(h_rows[r], [k])), ir.IntType(32)(0))
        repeated = builder.shuffle_vector(one, nothing, first)
        for v in range(VECTORS):
            product = builder.fmul(repeated, columns[v], flags=fused)
            totals.append(builder.fadd(product, sums[r * VECTORS + v], flags=fused))
    following = builder.add(k, index(1))
    builder.cbranch(builder.icmp_signed("<", following, inner), loop, after)
    for phi, begin, again in [(k, index(0), following), *((s, ir.Constant(vector, None), t) for s, t in zip(sums, totals, strict=True))]:
        phi.add_incoming(begin, before)
        phi.add_incoming(again, loop)

    builder.position_at_end(after)
    for r in range(ROWS):
        begin = row(out, r)
        for v in range(VECTORS):
            builder.store(totals[r * VECTORS + v], vector_at(begin, index(v * lanes)), align=size)
    return context.get_dummy_value()
