"""Laws of hierarchical attention, against its definition in NumPy."""

from __future__ import annotations

import importlib.util
import math
import unittest
from typing import Any

import numpy as np
from attention_support import SOFTWARE, run, vulkan_or_skip

from foveate_attention import DeviceError, hierarchical_attention

HAS_TORCH = importlib.util.find_spec("torch") is not None


def cells(grid: tuple[int, int], coarse: int, level: int) -> Any:
    """The cell of each key."""
    side = coarse**level
    y, x = np.mgrid[: grid[0], : grid[1]] // side
    return (y * -(-grid[1] // side) + x).ravel()


def softmax(scores: Any) -> Any:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def defined(
    q: Any, k: Any, v: Any, grid: tuple[int, int], coarse: int, tops: list[float], biases: list[float], scale: float
) -> Any:
    """Of one head, in double precision: the definition, word by word."""
    q, k, v = (one.astype(np.float64) for one in (q, k, v))
    found = []
    visible: Any = None
    for level in reversed(range(len(tops) + 1)):
        owner = cells(grid, coarse, level)
        count = np.bincount(owner)
        means = [np.stack([np.bincount(owner, column) for column in one.T], axis=1) / count[:, None] for one in (k, v)]
        score = scale * q @ means[0].T + np.log(count)
        is_visible = np.ones_like(score, bool) if visible is None else visible
        opened = np.zeros_like(is_visible)
        if level:
            score += biases[level - 1]
            order = np.argsort(np.where(is_visible, -score, np.inf), axis=1, kind="stable")
            best = order[:, : math.ceil(tops[level - 1] * len(count))]
            np.put_along_axis(opened, best, True, axis=1)
            opened &= is_visible
            parent = np.zeros(len(np.bincount(cells(grid, coarse, level - 1))), int)
            parent[cells(grid, coarse, level - 1)] = owner
            visible = opened[:, parent]
        found.append((np.where(is_visible & ~opened, score, -np.inf), means[1]))
    weights = softmax(np.concatenate([score for score, _ in found], axis=1))
    return weights @ np.concatenate([value for _, value in found])


def full(q: Any, k: Any, v: Any) -> Any:
    """Full attention in double precision."""
    q, k, v = (one.astype(np.float64) for one in (q, k, v))
    return softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])) @ v


def arrays(
    random: Any, queries: int, grid: tuple[int, int], width: int, value_width: int, lead: tuple[int, ...] = ()
) -> Any:
    """Queries and keys of small whole numbers. Where cells have sides of powers of two their scores are exact in every
    precision, so that all ways of computing open the same cells; many are equal. Values are normally distributed."""
    keys = grid[0] * grid[1]
    q = random.integers(-4, 5, (*lead, queries, width)).astype(np.float32)
    k = random.integers(-4, 5, (*lead, keys, width)).astype(np.float32)
    return q, k, random.standard_normal((*lead, keys, value_width)).astype(np.float32)


class Laws:
    """What holds on every backend."""

    backend: dict[str, Any]
    #: Random cases of the definition.
    cases: int

    def setUp(self) -> None:
        self.random = np.random.default_rng(0)

    def attend(self, *arguments: Any, **settings: Any) -> Any:
        return hierarchical_attention(*arguments, **settings, **self.backend)

    def test_weights_sum_to_one(self) -> None:
        for grid in ((1, 1), (5, 7), (16, 16), (1, 33)):
            for levels in (1, 2, 3):
                for top in (0.01, 0.1, 0.5, 1):
                    q, k, v = arrays(self.random, 9, grid, 8, 3, (2,))
                    found = self.attend(q, k, np.ones_like(v), grid, 2, top, levels)
                    np.testing.assert_allclose(found, 1, atol=2e-6)

    def test_with_all_cells_opened_it_is_full_attention(self) -> None:
        for grid in ((1, 1), (5, 7), (16, 16), (19, 3)):
            for coarse in (2, 3, 4):
                for levels in (1, 2, 3):
                    q, k, v = (
                        self.random.standard_normal(shape).astype(np.float32)
                        for shape in ((3, 11, 20), (3, grid[0] * grid[1], 20), (3, grid[0] * grid[1], 17))
                    )
                    found = self.attend(q, k, v, grid, coarse, 1, levels)
                    np.testing.assert_allclose(found, full(q, k, v), atol=3e-6)

    def test_equal_keys_give_what_full_attention_gives(self) -> None:
        for grid in ((5, 7), (16, 16), (9, 2)):
            for coarse in (2, 3):
                for levels in (1, 2, 3):
                    for top in (0.01, 0.3, 1):
                        q, k, v = arrays(self.random, 6, grid, 12, 5)
                        k[:] = k[0]
                        found = self.attend(q, k, v, grid, coarse, top, levels)
                        np.testing.assert_allclose(found, full(q, k, v), atol=3e-6)

    def test_it_is_what_the_definition_says(self) -> None:
        for _ in range(self.cases):
            whole = self.random.integers
            grid = (int(whole(1, 20)), int(whole(1, 20)))
            levels, coarse, queries = int(whole(1, 4)), int(self.random.choice([2, 4])), int(whole(1, 150))
            tops = [float(top) for top in self.random.choice([0.01, 0.1, 0.25, 0.5, 1.0], levels)]
            biases = [float(bias) for bias in self.random.choice([-1.5, 0.0, 0.75], levels)]
            scale = float(self.random.choice([0.125, 0.25]))
            q, k, v = arrays(self.random, queries, grid, int(whole(1, 40)), int(whole(1, 40)))
            found = self.attend(q, k, v, grid, coarse, tops, levels, biases, scale)
            expected = defined(q, k, v, grid, coarse, tops, biases, scale)
            message = f"{grid} {coarse} {tops} {biases} {q.shape}"
            np.testing.assert_allclose(found, expected, atol=2e-5, err_msg=message)

    def test_cells_whose_means_are_rounded_are_what_the_definition_says(self) -> None:
        for coarse in (3, 5):
            for levels in (1, 2, 3):
                q, k, v = arrays(self.random, 150, (17, 23), 24, 20)
                k += self.random.standard_normal(k.shape).astype(np.float32)
                found = self.attend(q, k, v, (17, 23), coarse, 0.2, levels, scale=0.125)
                expected = defined(q, k, v, (17, 23), coarse, [0.2] * levels, [0.0] * levels, 0.125)
                is_close = np.isclose(found, expected, atol=2e-5).all(axis=1)
                # Where two scores are almost equal, rounding decides which cell is opened.
                self.assertGreaterEqual(is_close.sum(), 148)

    def test_many_keys_are_what_the_definition_says(self) -> None:
        for coarse, levels in ((2, 1), (2, 2), (4, 1)):
            q, k, v = arrays(self.random, 200, (64, 64), 64, 64)
            found = self.attend(q, k, v, (64, 64), coarse, 0.1, levels, scale=0.03125)
            expected = defined(q, k, v, (64, 64), coarse, [0.1] * levels, [0.0] * levels, 0.03125)
            np.testing.assert_allclose(found, expected, atol=2e-5)

    def test_each_head_is_an_attention_of_its_own(self) -> None:
        q, k, v = arrays(self.random, 100, (6, 7), 16, 16, (5, 4))
        found = self.attend(q, k, v, (6, 7), 2, 0.2)
        self.assertEqual(found.shape, (5, 4, 100, 16))
        for batch in range(5):
            for head in range(4):
                alone = self.attend(*(one[batch, head] for one in (q, k, v)), (6, 7), 2, 0.2)
                np.testing.assert_array_equal(found[batch, head], alone)

    def test_half_precision_is_rounded_single_precision(self) -> None:
        q, k, v = (one.astype(np.float16) for one in arrays(self.random, 70, (9, 11), 24, 10, (2,)))
        found = self.attend(q, k, v, (9, 11), 2, 0.2, 2)
        self.assertEqual(found.dtype, np.float16)
        wide = self.attend(*(one.astype(np.float32) for one in (q, k, v)), (9, 11), 2, 0.2, 2)
        np.testing.assert_array_equal(found, wide.astype(np.float16))

    def test_large_scores_do_not_overflow(self) -> None:
        q, k, v = arrays(self.random, 20, (8, 8), 16, 4)
        found = self.attend(q * 100, k, v, (8, 8), 2, 0.1)
        expected = defined(q * 100, k, v, (8, 8), 2, [0.1], [0.0], 0.25)
        np.testing.assert_allclose(found, expected, atol=2e-5)

    def test_numbers_that_are_not_finite_stay_in_their_query(self) -> None:
        q, k, v = arrays(self.random, 20, (8, 8), 16, 4)
        clean = self.attend(q, k, v, (8, 8))
        q[7, 3], q[9, 2] = np.nan, np.inf
        found = self.attend(q, k, v, (8, 8))
        np.testing.assert_array_equal(np.delete(found, [7, 9], axis=0), np.delete(clean, [7, 9], axis=0))
        self.assertTrue(np.isnan(found[7]).all())

    def test_a_key_that_is_not_a_number_is_not_left_out(self) -> None:
        for top in (0.1, 1):
            q, k, v = arrays(self.random, 20, (8, 8), 16, 4)
            k[17, 3] = np.nan
            self.assertTrue(np.isnan(self.attend(q, k, v, (8, 8), top=top)).all())

    def test_any_layout_in_memory_is_taken(self) -> None:
        q, k, v = arrays(self.random, 30, (6, 6), 8, 8, (3,))
        found = self.attend(q, k, v, (6, 6))
        apart = [np.moveaxis(np.ascontiguousarray(np.moveaxis(one, 0, 1)), 1, 0) for one in (q, k, v)]
        for one in apart:
            one.flags.writeable = False
        np.testing.assert_array_equal(self.attend(*apart, (6, 6)), found)

    def test_no_queries_and_no_heads_give_no_results(self) -> None:
        q, k, v = arrays(self.random, 0, (4, 4), 8, 6, (2,))
        self.assertEqual(self.attend(q, k, v, (4, 4)).shape, (2, 0, 6))
        for lead in ((0,), (0, 2), (2, 0)):
            q, k, v = arrays(self.random, 3, (4, 4), 8, 6, lead)
            self.assertEqual(self.attend(q, k, v, (4, 4)).shape, (*lead, 3, 6))


class TestCpu(Laws, unittest.TestCase):
    backend = {"backend": "cpu"}
    cases = 300


class TestVulkan(Laws, unittest.TestCase):
    """On the reference device."""

    backend = {"backend": "vulkan", "device": SOFTWARE}
    cases = 150

    def setUp(self) -> None:
        vulkan_or_skip()
        super().setUp()

    def test_a_second_run_gives_the_same_numbers(self) -> None:
        q, k, v = (self.random.standard_normal((2, 3, 24 * 31, 20)).astype(np.float32) for _ in range(3))
        found = self.attend(q, k, v, (24, 31), 3, 0.1, 2)
        np.testing.assert_array_equal(self.attend(q, k, v, (24, 31), 3, 0.1, 2), found)

    def test_a_device_has_many_names(self) -> None:
        q, k, v = arrays(self.random, 5, (4, 5), 6, 7)
        found = self.attend(q, k, v, (4, 5))
        for name in (SOFTWARE.upper(), SOFTWARE[1:-1]):
            other = hierarchical_attention(q, k, v, (4, 5), backend="vulkan", device=name)
            np.testing.assert_array_equal(other, found)

    def test_keys_that_are_too_many_are_refused_by_name(self) -> None:
        """Or computed, where the device has room."""
        q, k, v = np.ones((1, 2048), np.float32), np.ones((1 << 15, 2048), np.float32), np.ones((1 << 15, 1), np.float32)
        try:
            self.assertEqual(self.attend(q, k, v, (128, 256)), 1)
        except DeviceError as error:
            self.assertRegex(str(error), "^backend=.vulkan.: .*keys.*: 268435456 bytes")

    def test_a_lost_device_is_an_error_and_is_opened_anew(self) -> None:
        code = """
import numpy as np
from foveate_attention import DeviceError, hierarchical_attention
ones = np.ones((16, 4), np.float32)
for _ in range(2):
    assert (hierarchical_attention(ones, ones, ones, (4, 4), backend="vulkan", device=%r) == 1).all()
    try:
        hierarchical_attention(ones, ones, ones, (4, 4), backend="vulkan", device=%r)
        raise SystemExit("the device was not lost")
    except DeviceError as error:
        assert "backend=" in str(error) and "device lost" in str(error), error
"""
        done = run(code % (SOFTWARE, SOFTWARE), FOVEATE_INJECT_DEVICE_LOSS="1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_fork_is_told_what_to_do(self) -> None:
        """And computes on the CPU, and ends."""
        code = """
import os, sys
import numpy as np
from foveate_attention import DeviceError, hierarchical_attention
ones = np.ones((16, 4), np.float32)
attend = lambda backend, device: hierarchical_attention(ones, ones, ones, (4, 4), backend=backend, device=device)
attend("vulkan", %r)
child = os.fork()
if child == 0:
    for name in (%r, None):
        try:
            attend("vulkan", name)
            os._exit(1)
        except DeviceError as error:
            assert str(error).startswith("backend='vulkan': ") and "a fork of it" in str(error), error
    assert (attend("cpu", None) == 1).all()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert (attend("vulkan", %r) == 1).all()
"""
        # From Python 3.12 on, it warns of every fork of a process with threads.
        done = run(code % (SOFTWARE, SOFTWARE, SOFTWARE), PYTHONWARNINGS="ignore:This process:DeprecationWarning")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class TestErrors(unittest.TestCase):
    def refused(self, kind: type[Exception], words: str, **changes: Any) -> None:
        q, k, v = arrays(np.random.default_rng(0), 3, (4, 6), 8, 5, (2,))
        settings: dict[str, Any] = {"q": q, "k": k, "v": v, "grid": (4, 6), **changes}
        with self.assertRaisesRegex(kind, words):
            hierarchical_attention(**settings)

    def test_arrays_that_do_not_fit(self) -> None:
        zeros = np.zeros
        self.refused(ValueError, "^q has the shape", q=zeros(8, np.float32))
        self.refused(ValueError, "^k has the leading axes", k=zeros((3, 24, 8), np.float32))
        self.refused(ValueError, "^k has vectors of 9", k=zeros((2, 24, 9), np.float32))
        self.refused(ValueError, "^v has 23 rows", v=zeros((2, 23, 5), np.float32))
        self.refused(ValueError, "^v has the shape", v=zeros((2, 24, 0), np.float32))
        self.refused(ValueError, "^grid is 6 by 6, which is 36 keys", grid=(6, 6))
        self.refused(ValueError, "^grid is 0 by 6", grid=(0, 6))
        self.refused(TypeError, "^grid=24", grid=24)
        self.refused(TypeError, "^grid=4.5", grid=(4.5, 6))

    def test_other_kinds_and_formats(self) -> None:
        self.refused(TypeError, "^q is a list", q=[[1.0]])
        self.refused(TypeError, r"^k has float64.*astype\(numpy.float32\)", k=np.zeros((2, 24, 8)))
        self.refused(TypeError, "^v has float16 and q float32", v=np.zeros((2, 24, 5), np.float16))
        self.refused(TypeError, "^v has int32", v=np.zeros((2, 24, 5), np.int32))

    def test_settings_out_of_range(self) -> None:
        for coarse in (1, 0, -2, 1 << 40):
            self.refused(ValueError, f"^coarse is {coarse}", coarse=coarse)
        self.refused(TypeError, "^coarse=2.5", coarse=2.5)
        for top in (0, -0.1, 1.1):
            self.refused(ValueError, f"^top={float(top)}", top=top)
        self.refused(ValueError, "^top=nan", top=math.nan)
        self.refused(TypeError, "^top='all'", top="all")
        self.refused(ValueError, "^top has 2 numbers: expected 1", top=(0.1, 0.2))
        for levels in (0, 4):
            self.refused(ValueError, f"^levels={levels}", levels=levels)
        self.refused(TypeError, "^levels=None", levels=None)
        self.refused(ValueError, "^bias has 1 numbers: expected 2", levels=2, bias=[1.0])
        self.refused(ValueError, "^bias=inf", bias=[math.inf])
        self.refused(TypeError, "^bias=0.5", bias=0.5)
        self.refused(ValueError, "^scale=nan", scale=math.nan)
        self.refused(ValueError, "^scale=1e", scale=1e300)
        self.refused(TypeError, "^scale='1'", scale="1")
        self.refused(ValueError, "^backend='cuda' .expected 'cpu' or 'vulkan'", backend="cuda")
        self.refused(ValueError, "^device is 'llvmpipe', and backend 'cpu'", device="llvmpipe")
        self.refused(TypeError, "^device=0", backend="vulkan", device=0)

    def test_devices_that_are_not_there(self) -> None:
        vulkan_or_skip()
        nowhere = {"backend": "vulkan", "device": "no such device"}
        self.refused(DeviceError, "^backend=.vulkan.: .*no such device.*`device`", **nowhere)

    def test_without_vulkan_the_packages_are_named(self) -> None:
        code = """
import numpy as np
from foveate_attention import DeviceError, hierarchical_attention
ones = np.ones((16, 4), np.float32)
try:
    hierarchical_attention(ones, ones, ones, (4, 4), backend="vulkan")
except DeviceError as error:
    assert str(error).startswith('backend="vulkan": ') and "mesa-vulkan-drivers" in str(error), error
else:
    raise SystemExit("there is a device")
"""
        vulkan_or_skip()
        done = run(code, VK_DRIVER_FILES="/nowhere", VK_ICD_FILENAMES="/nowhere")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_arrays_may_be_resized_by_another_thread(self) -> None:
        code = """
import threading, time, numpy as np
from foveate_attention import hierarchical_attention
stopped = threading.Event()
keys = np.zeros((1, 4096, 64), np.float32)

def resize():
    while not stopped.is_set():
        for size in ((1, 4096, 64), (1, 1, 1)):
            keys.resize(size, refcheck=False)
            time.sleep(0.002)

thread = threading.Thread(target=resize)
thread.start()
for _ in range(60):
    try:
        hierarchical_attention(keys[:, :64], keys, keys, grid=(64, 64), coarse=2, top=0.1)
    except ValueError:
        pass  # It was small.
stopped.set()
thread.join()
print("alive")
"""
        done = run(code)
        self.assertEqual(done.stdout, "alive\n", (done.returncode, done.stderr))

    def test_a_cell_may_be_larger_than_the_grid(self) -> None:
        q, k, v = arrays(np.random.default_rng(0), 3, (4, 6), 8, 5)
        found = hierarchical_attention(q, k, v, (4, 6), coarse=(1 << 31) - 1, levels=3, top=1)
        np.testing.assert_allclose(found, full(q, k, v), atol=3e-6)


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class TestTorch(unittest.TestCase):
    def setUp(self) -> None:
        global torch
        import torch

        self.random = np.random.default_rng(1)

    def tensors(self, *shape: Any, **settings: Any) -> Any:
        return [torch.from_numpy(one).requires_grad_(**settings) for one in arrays(self.random, *shape)]

    def test_tensors_give_tensors_of_what_arrays_give(self) -> None:
        for dtype in (torch.float32, torch.float16):
            q, k, v = (one.to(dtype) for one in self.tensors(40, (7, 5), 12, 9, (2, 3), requires_grad=False))
            found = hierarchical_attention(q, k, v, (7, 5), 2, 0.2)
            expected = hierarchical_attention(q.numpy(), k.numpy(), v.numpy(), (7, 5), 2, 0.2)
            self.assertEqual(found.dtype, dtype)
            np.testing.assert_array_equal(found.numpy(), expected)

    def test_with_gradients_it_is_the_same(self) -> None:
        for _ in range(60):
            whole = self.random.integers
            grid = (int(whole(1, 14)), int(whole(1, 14)))
            levels, coarse = int(whole(1, 4)), int(self.random.choice([2, 4]))
            tops = [float(top) for top in self.random.choice([0.01, 0.1, 0.25, 0.5, 1.0], levels)]
            biases = [float(bias) for bias in self.random.choice([-1.5, 0.0, 0.75], levels)]
            q, k, v = self.tensors(5, grid, 6, 7, (2,), requires_grad=True)
            found = hierarchical_attention(q, k, v, grid, coarse, tops, levels, biases, 0.25)
            self.assertTrue(found.requires_grad)
            plain = (one.detach().numpy() for one in (q, k, v))
            expected = hierarchical_attention(*plain, grid, coarse, tops, levels, biases, 0.25)
            np.testing.assert_allclose(found.detach().numpy(), expected, atol=2e-5)

    def test_gradients_are_those_of_the_weights(self) -> None:
        q, k, v = (
            torch.from_numpy(self.random.standard_normal(shape)).requires_grad_() for shape in ((4, 6), (20, 6), (20, 3))
        )
        for levels in (1, 2):
            self.assertTrue(
                torch.autograd.gradcheck(
                    lambda q, k, v: hierarchical_attention(q, k, v, (4, 5), 2, 0.3, levels, [0.5] * levels), (q, k, v)
                )
            )

    def test_without_gradients_wanted_the_native_kernel_computes(self) -> None:
        q, k, v = self.tensors(200, (16, 16), 24, 30, requires_grad=True)
        with torch.no_grad():
            found = hierarchical_attention(q, k, v, (16, 16), scale=0.1)
        expected = hierarchical_attention(*(one.detach().numpy() for one in (q, k, v)), (16, 16), scale=0.1)
        np.testing.assert_array_equal(found.numpy(), expected)

    def test_vulkan_computes_tensors_in_memory(self) -> None:
        vulkan_or_skip()
        vulkan = {"backend": "vulkan", "device": SOFTWARE}
        for dtype in (torch.float32, torch.float16):
            q, k, v = (one.to(dtype) for one in self.tensors(40, (7, 5), 12, 9, (2, 3), requires_grad=False))
            found = hierarchical_attention(q, k, v, (7, 5), 2, 0.2, scale=0.25, **vulkan)
            expected = hierarchical_attention(q, k, v, (7, 5), 2, 0.2, scale=0.25)
            self.assertEqual(found.dtype, dtype)
            np.testing.assert_allclose(found.float().numpy(), expected.float().numpy(), atol=2e-5, rtol=1e-3)
        q, k, v = self.tensors(4, (4, 4), 6, 3, requires_grad=False)
        with self.assertRaisesRegex(ValueError, "^k needs gradients.*backend='vulkan'"):
            hierarchical_attention(q, k.clone().requires_grad_(), v, (4, 4), **vulkan)
        with self.assertRaisesRegex(ValueError, "^q is on meta.*backend='vulkan'"):
            hierarchical_attention(*(one.to("meta") for one in (q, k, v)), (4, 4), **vulkan)
        with self.assertRaisesRegex(TypeError, "^q has torch.bfloat16.*backend='vulkan'"):
            hierarchical_attention(*(one.bfloat16() for one in (q, k, v)), (4, 4), **vulkan)
        with torch.no_grad():
            hierarchical_attention(q, k.clone().requires_grad_(), v, (4, 4), **vulkan)

    def test_tensors_that_do_not_fit(self) -> None:
        q, k, v = self.tensors(4, (4, 4), 6, 3, requires_grad=False)
        with self.assertRaisesRegex(TypeError, "^k is a ndarray and q a tensor"):
            hierarchical_attention(q, k.numpy(), v, (4, 4))
        with self.assertRaisesRegex(TypeError, "^q has torch.int64"):
            hierarchical_attention(q.long(), k, v, (4, 4))
        with self.assertRaisesRegex(ValueError, "^v is on meta and q on cpu"):
            hierarchical_attention(q, k, v.to("meta"), (4, 4))


if __name__ == "__main__":
    unittest.main()
