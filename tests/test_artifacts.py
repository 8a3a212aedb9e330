"""Files that are whole or not there, and arrays that stay in them."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from leporid.data import cache_dir
from leporid.errors import DataError
from leporid.foundation.artifacts import (
    LARGEST_JSON,
    atomic_path,
    cache_directory,
    check_manifest,
    map_arrays,
    read_arrays,
    read_json,
    user_cache_directory,
    write_arrays,
    write_manifest,
)

KINDS = ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8"]


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text("abc.é", min_size=1, max_size=8),
        st.sampled_from(KINDS).flatmap(
            lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0))
        ),
        max_size=5,
    )
)
def test_mapped_arrays_are_those_that_were_read(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray]
) -> None:
    path = tmp_path_factory.mktemp("arrays") / "a.safetensors"
    write_arrays(path, arrays, {"who": "test"})
    mapped, metadata = map_arrays(path)
    assert metadata == {"who": "test"}
    assert set(mapped) == set(arrays)
    for name, array in arrays.items():
        assert mapped[name].dtype == array.dtype
        np.testing.assert_array_equal(mapped[name], array)


def test_equal_arrays_are_equal_bytes_in_any_order(tmp_path: Path) -> None:
    arrays = {
        "wide": np.arange(6.0).reshape(2, 3).T,
        "flag": np.array([True]),
        "é": np.arange(4, dtype=np.float32),
        "empty": np.zeros((0, 2), np.float32),
    }
    about = {f"key {n}": f"value é {n}" for n in range(12)}
    places = [tmp_path / f"{n}.safetensors" for n in range(8)]
    for turn, place in enumerate(places):
        names, keys = list(arrays), list(about)
        if turn % 2:
            names.reverse()
            keys.reverse()
        held = {name: arrays[name] for name in names}
        write_arrays(place, held, {key: about[key] for key in keys}, checksum=True)
    assert len({place.read_bytes() for place in places}) == 1
    with safetensors.safe_open(places[0], framework="numpy") as file:
        assert set(file.metadata()) == {*about, "checksum"}
        for name, array in arrays.items():
            np.testing.assert_array_equal(file.get_tensor(name), array)


def test_arrays_of_another_byte_order_keep_their_values(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"x": np.arange(5, dtype=">f8")}, checksum=True)
    assert read_arrays(path)[0]["x"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match="x holds complex128"):
        write_arrays(path, {"x": np.zeros(2, np.complex128)})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_json_that_never_ends_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    device = tmp_path / "device.json"
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(DataError, match=f"{path.name} is a pipe or a device"):
            read_json(path)
    huge = tmp_path / "huge.json"
    with open(huge, "wb") as file:
        file.truncate(LARGEST_JSON + 1)  # a hole: it takes no room
    with pytest.raises(DataError, match=r"huge\.json has 100 MiB"):
        read_json(huge)
    with pytest.raises(DataError, match="could not read"):
        read_json(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
@pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
def test_a_folder_whose_files_never_end_is_refused_at_once(tmp_path: Path, name: str) -> None:
    for file in ("model.json", "weights.safetensors"):
        (tmp_path / file).write_text("{}")
    write_manifest(tmp_path, "model", "model.json", "weights.safetensors")
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=f"{name} is a pipe or a device"):
        check_manifest(tmp_path, "model", "model.json")
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match=f"{name} is not the file that was saved here"):
        check_manifest(tmp_path, "model", "model.json")


def test_changes_of_a_mapped_array_stay_in_the_process(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    write_arrays(tmp_path / "a.safetensors", {"x": np.arange(5000, dtype=np.float32)})
    mapped, _ = map_arrays(tmp_path / "a.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of memory it must not write to
        torch.from_numpy(mapped["x"]).add_(1)
    assert mapped["x"][7] == 8
    again, _ = read_arrays(tmp_path / "a.safetensors")
    assert again["x"][7] == 7


def test_a_mapped_file_can_be_replaced_but_its_arrays_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"x": np.full(200_000, 3, np.int64)})
    mapped, _ = map_arrays(path)
    # Much shorter: had it been cut in place, the next line would be the process's last.
    write_arrays(path, {"x": np.zeros(1, np.int64)})
    assert mapped["x"].sum() == 600_000
    assert map_arrays(path)[0]["x"].sum() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_arrays_lie_in_the_mapping_until_the_last_of_them_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"x": np.arange(9, dtype=np.float32), "y": np.arange(4)})
    mapped, _ = map_arrays(path)
    [(begin, end)] = mappings(path)
    for array in mapped.values():
        assert begin <= array.ctypes.data < end
    last = mapped.pop("y")
    del mapped, array
    assert mappings(path)
    assert last.tolist() == [0, 1, 2, 3]
    del last
    assert not mappings(path)


@pytest.mark.parametrize(
    "content", [b"", b"\x08", b"half a file", b"\xff" * 64, b"\x02" + b"\0" * 7 + b"{}x"]
)
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.safetensors"):
        map_arrays(tmp_path / "a.safetensors")
    with pytest.raises(DataError, match="no such file"):
        map_arrays(tmp_path / "b.safetensors")


def test_a_cut_file_is_refused_before_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"x": np.arange(5000)})
    whole = path.read_bytes()
    with atomic_path(path) as fresh:
        fresh.write_bytes(whole[:-8])
    with pytest.raises(DataError, match="not a safetensors file"):
        map_arrays(path)


def mappings(path: Path) -> list[tuple[int, int]]:
    """Where this process has mapped a file."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, *_, name = line.split(maxsplit=5)
        if name.removesuffix(" (deleted)") == str(path):
            begin, _, end = place.partition("-")
            found.append((int(begin, 16), int(end, 16)))
    return found


def test_one_rule_for_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEPORID_CACHE", "~/here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == cache_dir() == tmp_path / "here"
    monkeypatch.delenv("LEPORID_CACHE")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert user_cache_directory() == tmp_path / "xdg" / "leporid"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert user_cache_directory() == tmp_path / ".cache" / "leporid"
    assert cache_directory() == cache_dir() == user_cache_directory()


@pytest.mark.parametrize("word", ["off", " OFF ", "0", ""])
def test_a_cache_that_is_off_still_has_room_for_data_sets(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEPORID_CACHE", word)
    assert cache_directory() is None
    assert cache_dir() == user_cache_directory()
