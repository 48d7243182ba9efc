"""Low-level operations numba lacks: raw memory, atomic counters, register tiles.

The tiles are spelled out for LLVM, because plain loops would store their sums after every product:

    float_tile      y_ro = Σ_k w_ok x_rk                                 rows of W as they lie in memory, in float32 or bf16
    byte_tile       y_ro = Σ_b s_ob d_rb Σ_{k in b} (w_ok − 128) x_rk     16 outputs interleaved, see `kernels/int8.py`
"""

from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

I8, I32, I64, F32 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
FUSED = ("contract",)  # one rounding for a product and its sum
FREE = ("contract", "reassoc", "nsz")
BLOCK, GROUP = 32, 16  # numbers that share a scale; outputs that are interleaved
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(FREE)}
BLOCK_BYTES = 2 * GROUP + BLOCK * GROUP  # scales of a block as float16, then its weights


F = TypeVar("F", bound=Callable[..., Any])


def subroutine(function: F) -> F:
    """Compile a function that compiled functions call; sums may be reassociated."""
    compiled: F = njit(**OPTIONS)(function)
    return compiled


def spell_out(function: Callable[..., Any]) -> Any:
    """Define a function by LLVM instructions."""
    return intrinsic(function)


def _features(context: Any) -> str:
    """Return the processor's features in LLVM's names."""
    features: str = context.codegen().magic_tuple()[2]
    return features


def _at(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _pointer(kind: Any, native: Any) -> Any:
    def infer_types(_: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], native.as_pointer())

        return types.CPointer(kind)(types.int64), generate

    return intrinsic(infer_types)


as_floats = _pointer(types.float32, F32)
as_bytes = _pointer(types.int8, I8)
as_ints = _pointer(types.int32, I32)


@spell_out
def fetch_add(_: Any, address: Any, amount: Any) -> Any:
    """Add to a counter (int64) and return what it was."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _at(builder, args[0], I64), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@spell_out
def load_counter(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_at(builder, args[0], I64), "seq_cst", 8)

    return types.int64(types.int64), generate


@spell_out
def relax(_: Any) -> Any:
    """Emit a pause instruction for a spinning thread."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if "+sse2" in _features(context):
            pause = builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), ir.FunctionType(ir.VoidType(), ()))
            builder.call(pause, ())
        return context.get_dummy_value()

    return types.void(), generate


def _loop(builder: Any, count: Any, begins: list[Any], body: Any) -> list[Any]:
    """Emit a loop of `count` (≥ 1) rounds of `body(index, values)`; return the final values."""
    before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(I64)
    values = [builder.phi(begin.type) for begin in begins]
    found = body(index, values)
    following = builder.add(index, I64(1))
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    for phi, begin, again in [(index, I64(0), following), *zip(values, begins, found, strict=True)]:
        phi.add_incoming(begin, before)
        phi.add_incoming(again, builder.block)
    builder.position_at_end(after)
    return list(found)


def _float_tile(outputs: int, rows: int, *, halves: bool = False) -> Any:
    """Products of `outputs` rows of W with `rows` of x over `steps` · 16 numbers.

    With `halves` W is in bf16: the upper halves of float32 numbers.
    """
    size = 2 if halves else 4  # bytes of a weight

    def infer_types(_: Any, w: Any, w_stride: Any, x: Any, x_stride: Any, steps: Any, y: Any, y_stride: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            w, w_stride, x, x_stride, steps, y, y_stride = args
            vector, ints = ir.VectorType(F32, 16), ir.VectorType(I32, 16)
            shorts = ir.VectorType(ir.IntType(16), 16)
            w_rows = [builder.add(w, builder.mul(w_stride, I64(size * o))) for o in range(outputs)]

            def load(address: Any) -> Any:
                if not halves:
                    return builder.load(_at(builder, address, vector), align=4)
                upper = builder.zext(builder.load(_at(builder, address, shorts), align=2), ints)
                return builder.bitcast(builder.shl(upper, ir.Constant(ints, [16] * 16)), vector)

            x_rows = [builder.add(x, builder.mul(x_stride, I64(4 * r))) for r in range(rows)]

            kind = ir.FunctionType(ir.VoidType(), (I8.as_pointer(), I32, I32, I32))
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", (I8.as_pointer(),), kind)
            ahead = builder.mul(w_stride, I64(size * outputs))

            def body(step: Any, sums: list[Any]) -> list[Any]:
                offset, along = builder.mul(step, I64(64)), builder.mul(step, I64(16 * size))
                for row in w_rows if outputs > 1 else []:  # several short streams at once are too much for the processor's own
                    builder.call(prefetch, (_at(builder, builder.add(builder.add(row, ahead), along), I8), I32(0), I32(3), I32(1)))
                given = [builder.load(_at(builder, builder.add(row, offset), vector), align=4) for row in x_rows]
                found: list[Any] = []
                for row in w_rows:
                    weights = load(builder.add(row, along))
                    for r in range(rows):
                        product = builder.fmul(weights, given[r], flags=FUSED)
                        found.append(builder.fadd(product, sums[len(found)], flags=FUSED))
                return found

            sums = _loop(builder, steps, [ir.Constant(vector, None)] * (outputs * rows), body)
            total = builder.module.declare_intrinsic("llvm.vector.reduce.fadd.v16f32", (), ir.FunctionType(F32, (F32, vector)))
            for o in range(outputs):
                for r in range(rows):
                    one = builder.call(total, (F32(0.0), sums[o * rows + r]), fastmath=FREE)
                    place = builder.add(builder.mul(y_stride, I64(r)), I64(o))
                    builder.store(one, _at(builder, builder.add(y, builder.mul(place, I64(4))), F32))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), generate

    return intrinsic(infer_types)


def _byte_tile(rows: int) -> Any:
    """16 outputs of `rows` rows: packed int8 weights, int8 x with scales and offsets."""

    def infer_types(
        _: Any, w: Any, blocks: Any, x: Any, x_stride: Any, scales: Any, offsets: Any, s_stride: Any, y: Any, y_stride: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _spell_byte_tile(context, builder, rows, args)

        return types.void(*[types.int64] * 9), generate

    return intrinsic(infer_types)


def _spell_byte_tile(context: Any, builder: Any, rows: int, args: Any) -> Any:
    w, blocks, x, x_stride, scales, offsets, s_stride, y, y_stride = args
    floats, ints, shorts = ir.VectorType(F32, GROUP), ir.VectorType(I32, GROUP), ir.VectorType(ir.IntType(16), GROUP)
    multiply = _byte_product(context, builder)

    def splat(value: Any, vector: Any) -> Any:
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, I32(0))
        return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, GROUP), [0] * GROUP))

    def load(address: Any, kind: Any, align: int) -> Any:
        return builder.load(_at(builder, address, kind), align=align)

    def body(block: Any, sums: list[Any]) -> list[Any]:
        begin = builder.add(w, builder.mul(block, I64(BLOCK_BYTES)))
        half = builder.zext(load(begin, shorts, 2), ints)  # float16 to float32 by its bits: scales are positive
        shifted = builder.shl(half, ir.Constant(ints, [13] * GROUP))
        scale = builder.fmul(builder.bitcast(shifted, floats), ir.Constant(floats, [2.0**112] * GROUP))
        first = builder.add(begin, I64(2 * GROUP))
        weights = [load(builder.add(first, I64(64 * j)), ints, 1) for j in range(BLOCK // 4)]
        found = []
        for r in range(rows):
            place = builder.mul(builder.add(builder.mul(s_stride, I64(r)), block), I64(4))
            total = splat(load(builder.add(offsets, place), I32, 4), ints)
            bytes_ = builder.add(x, builder.add(builder.mul(x_stride, I64(r)), builder.mul(block, I64(BLOCK))))
            total = multiply(total, weights, [splat(load(builder.add(bytes_, I64(4 * j)), I32, 4), ints) for j in range(BLOCK // 4)])
            own = builder.fmul(scale, splat(load(builder.add(scales, place), F32, 4), floats))
            found.append(builder.fadd(builder.fmul(builder.sitofp(total, floats), own, flags=FUSED), sums[r], flags=FUSED))
        return found

    sums = _loop(builder, blocks, [ir.Constant(floats, None)] * rows, body)
    for r in range(rows):
        begin = builder.add(y, builder.mul(builder.mul(y_stride, I64(r)), I64(4)))
        builder.store(sums[r], _at(builder, begin, floats), align=4)
    return context.get_dummy_value()


def _byte_product(context: Any, builder: Any) -> Any:
    """Return total + Σ u·x over groups of four bytes, with VNNI where available."""
    ints, short = ir.VectorType(I32, GROUP), ir.IntType(16)
    if "+avx512vnni" in _features(context):
        kind = ir.FunctionType(ints, (ints, ints, ints))
        dot = builder.module.declare_intrinsic("llvm.x86.avx512.vpdpbusd.512", (), kind)

        def by_vnni(total: Any, weights: list[Any], given: list[Any]) -> Any:
            for unsigned, signed in zip(weights, given, strict=True):
                total = builder.call(dot, (total, unsigned, signed))
            return total

        return by_vnni

    wide, narrow = ir.VectorType(short, 64), ir.VectorType(I8, 64)
    pairs = ir.VectorType(I32, 32)
    even, odd = ([2 * i + which for i in range(32)] for which in (0, 1))

    def pick(value: Any, places: list[int]) -> Any:
        return builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(I32, len(places)), places))

    def by_words(total: Any, weights: list[Any], given: list[Any]) -> Any:
        sums = ir.Constant(pairs, None)
        for unsigned, signed in zip(weights, given, strict=True):
            u, s = builder.zext(builder.bitcast(unsigned, narrow), wide), builder.sext(builder.bitcast(signed, narrow), wide)
            words = [[builder.sext(pick(v, which), pairs) for v in (u, s)] for which in (even, odd)]
            halves = [builder.mul(*two) for two in words]  # the shape that LLVM turns into one multiply-add of words
            sums = builder.add(sums, builder.add(*halves))
        two = [pick(sums, [2 * i + which for i in range(16)]) for which in (0, 1)]
        return builder.add(total, builder.add(*two))

    return by_words


SHAPES = (1, 1), (1, 4), (4, 2), (4, 3), (4, 4)  # outputs and rows of the tiles
float_tiles = tuple(_float_tile(*shape) for shape in SHAPES)
half_tiles = tuple(_float_tile(*shape, halves=True) for shape in SHAPES)
byte_tile_1, byte_tile_2, byte_tile_4 = (_byte_tile(rows) for rows in (1, 2, 4))
