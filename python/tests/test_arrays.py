"""Arrays: numpy, DLPack, the buffer protocol, values and views."""
import copy
import pickle

import numpy as np
import pytest
import windrow as wr


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_numpy_round_trip_keeps_type_shape_and_values(dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    array = wr.array(values)
    assert array.shape == (2, 3, 4)
    assert np.asarray(array).dtype == values.dtype
    np.testing.assert_array_equal(np.asarray(array), values)


def test_numpy_sees_the_arrays_own_memory_and_copies_do_not_change():
    array = wr.array([1.0, 2.0])
    before = array.copy()
    view = np.asarray(array)
    view[0] = 7
    assert array.tolist() == [7.0, 2.0]
    assert before.tolist() == [1.0, 2.0]


def test_a_value_made_while_numpy_looks_is_not_written_through():
    array = wr.array([1.0, 2.0])
    view = np.asarray(array)
    other = array[:]
    view[0] = 5
    assert other.tolist() == [1.0, 2.0]


def test_dlpack_is_read_by_numpy_without_a_copy():
    array = wr.array([[1, 2], [3, 4]])
    seen = np.from_dlpack(array)
    np.asarray(array)[1, 1] = 9
    assert seen.tolist() == [[1, 2], [3, 9]]


def test_int64_is_narrowed_where_every_value_fits():
    assert wr.array(np.array([1, -2], np.int64)).dtype == wr.i32
    with pytest.raises(wr.Error, match=r"element 1 of the int64 array, 5000000000, does not fit i32"):
        wr.array(np.array([1, 5_000_000_000], np.int64))


def test_strided_input_is_copied():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(np.asarray(wr.array(values[:, ::2])), values[:, ::2])
    np.testing.assert_array_equal(np.asarray(wr.array(values.T)), values.T)


@pytest.mark.parametrize("key", [0, -1, slice(1, 3), (slice(None), 1), (..., slice(None, None, 2)), (None, 2), slice(None, None, -1),
                                 (slice(2, 2),)])
def test_indexing_is_numpys(key):
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(np.asarray(wr.array(values)[key]), values[key])


def test_writing_to_a_part_writes_to_the_array():
    array = wr.zeros((2, 3))
    array[1] = [1.0, 2.0, 3.0]
    array[0, 1:] = 4
    assert array.tolist() == [[0, 4, 4], [1, 2, 3]]


def test_index_errors_are_pythons():
    with pytest.raises(IndexError, match="index 5 is outside an axis of 2"):
        wr.zeros((2,))[5]
    assert list(wr.array([1.0, 2.0]))[1] == 2.0  # iteration ends by length


def test_operators_and_reflected_operators():
    a = wr.array([1.0, 4.0])
    np.testing.assert_allclose((2 - a / 2 + a ** 2).tolist(), [2.5, 16.0])
    np.testing.assert_allclose((np.array([1.0, 1.0], "f") + a).tolist(), [2.0, 5.0])
    assert (a > 2).tolist() == [False, True]
    assert (wr.eye(2) @ wr.ones((2, 2))).tolist() == [[1, 1], [1, 1]]


def test_pickle_and_deepcopy():
    array = wr.array(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert wr.identical(pickle.loads(pickle.dumps(array)), array)
    assert wr.identical(copy.deepcopy(array), array)


def test_out_is_written_and_must_fit():
    out = wr.zeros((2,))
    assert wr.exp(wr.zeros((2,)), out=out) is out
    assert out.tolist() == [1.0, 1.0]
    with pytest.raises(wr.Error):
        wr.exp(wr.zeros((3,)), out=out)


def test_numbers_and_truth():
    assert float(wr.array([2.5])) == 2.5 and int(wr.array(3)) == 3 and bool(wr.array(True))
    with pytest.raises(TypeError, match="2 elements, not one"):
        float(wr.zeros((2,)))


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match="complex128"):
        wr.array(np.array([1j]))


def test_bytes_in_another_machines_order_are_turned():
    for dtype in (">f4", ">f8", ">i4", ">i8", "<f4"):
        assert wr.array(np.arange(3).astype(dtype)).tolist() == [0, 1, 2]
    assert wr.compile(lambda x: x + 1)(np.arange(3).astype(">f4")).tolist() == [1, 2, 3]


def test_too_many_axes_are_said_to_be():
    with pytest.raises(TypeError, match=r"cannot read float32 with 9 axes \(8 at most\)"):
        wr.array(np.ones((1,) * 9, "f4"))
