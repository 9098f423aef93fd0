"""``zonelab bundle``: an archive with the same results and without the machine's identity.

The campaign is tests/fixtures/recorded/example.tar.xz, measured on the rig.
"""

import io
import lzma
import re
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.store.identities import Masks
from tests.fixtures.campaigns import write_campaign
from tests.fixtures.example import unpacked

EXAMPLE = unpacked()
# Of the rig: host name in RocksDB's LOG, serial, EUI-64 and UUID of namespaces, boot id of a run.
IDENTITIES = (
    b"zonelab-rig",
    b"zonelab0",
    b"5254005a4c000002",
    b"5254005a4c000001",
    b"5a4c0000-0000-4000",
)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("bundle")
    plain, hashed = folder / "plain.tar.xz", folder / "hashed.tar.xz"
    assert main(["bundle", str(EXAMPLE), "--output", str(plain)]) == 0
    assert main(["bundle", str(EXAMPLE), "--hash-identities", "--output", str(hashed)]) == 0
    return plain, hashed


def contents(archive: Path) -> dict[str, bytes]:
    """Return every file of an archive by its name, unpacked where it is packed."""
    with tarfile.open(archive) as stream:
        found = {m.name: stream.extractfile(m).read() for m in stream if m.isfile()}  # type: ignore[union-attr]
    return {
        name: lzma.decompress(data) if name.endswith(".xz") else data
        for name, data in found.items()
    }


def rewritten(archive: Path, target: Path, files: Mapping[str, bytes]) -> Path:
    """Copy an archive and replace the contents of files."""
    with tarfile.open(archive) as stream, tarfile.open(target, "w:xz", preset=0) as out:
        for member in stream:
            file = stream.extractfile(member)
            if (data := files.get(member.name)) is not None:
                member.size = len(data)
                file = io.BytesIO(data)  # type: ignore[assignment]
            out.addfile(member, file)
    return target


@pytest.mark.slow
def test_verify_accepts_an_archive_and_finds_every_change(
    archives: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, _ = archives
    assert main(["verify", str(plain), "--claims"]) == 0
    page = "example/report/index.html"
    raw = "example/hosts/rig/runs/f2fs--r01/raw/up.counters.json"
    changed = rewritten(plain, tmp_path / "changed.tar.xz", {page: b"another page", raw: b"{}"})
    capsys.readouterr()
    assert main(["verify", str(changed)]) == 4
    printed = capsys.readouterr().out
    assert "report/index.html: checksum differs\n" in printed
    assert "f2fs--r01: raw/up.counters.json: checksum differs" in printed


@pytest.mark.slow
def test_the_same_campaign_gives_the_same_archive(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    copy = shutil.copytree(EXAMPLE, tmp_path / "example")
    for path in copy.rglob("*"):
        path.touch()
    assert main(["bundle", str(copy), "--output", str(tmp_path / "b.tar.xz")]) == 0
    assert (tmp_path / "b.tar.xz").read_bytes() == archives[0].read_bytes()


@pytest.mark.slow
def test_hashed_identities_are_nowhere_and_nothing_else_has_changed(
    archives: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    plain, hashed = (contents(archive) for archive in archives)
    for identity in IDENTITIES:
        assert any(identity in data for data in plain.values()), identity
        assert not [name for name, data in hashed.items() if identity in data.lower()], identity
    assert not any("/rig/" in name for name in hashed)
    assert len(hashed) == len(plain)
    name = "example/report/tables/verdicts.csv"
    assert hashed[name] == plain[name]
    assert main(["verify", str(archives[1]), "--claims"]) == 0
    assert "not shown" in capsys.readouterr().out


def test_a_host_and_its_drives_are_hashed_in_every_form_they_are_written_in() -> None:
    masks = Masks(
        ["node17", "rig"], ["S7XYZ123", "5254005a4c000002", "0011-22334455-6677-8899aabbccddeeff"]
    )
    text = (
        b"node17.lab Node17 /dev/disk/by-id/nvme-S7XYZ123_1 eui.5254005A4C000002 "
        b"52 54 00 5a 4c 00 00 02"
    )
    done = masks.bytes(text)
    for gone in (b"node17", b"s7xyz123", b"5254005a4c", b"52 54 00"):
        assert gone not in done.lower()
    assert len(masks.bytes(b"S7XYZ123")) == 8
    assert masks.bytes(b"rigs trigger") == b"rigs trigger"
    assert masks.name("rig").startswith("host-")
    assert masks.bytes(b'{"rig": "rig"}', record=True).startswith(b'{"rig": "host-')
    plain = masks.bytes(b"5254005a4c000002")
    spaced = masks.bytes(b"52 54 00 5a 4c 00 00 02")
    assert spaced.replace(b" ", b"") == plain


def test_a_host_that_is_called_like_a_level_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_campaign(tmp_path / "c", hosts=("f2fs",), repetitions=1, series=False)
    output = tmp_path / "b.tar.xz"
    code = main(["bundle", str(folder), "--hash-identities", "--output", str(output)])
    assert code == 2
    assert (
        "the name of a host or drive is also a word of the study: 'f2fs'" in capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == [folder]


def test_a_damaged_run_is_not_given_new_checksums(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", repetitions=1, series=False)
    path = next(folder.glob("hosts/*/runs/*/result.json"))
    path.write_text(path.read_text() + " ")
    assert main(["bundle", str(folder), "--output", str(tmp_path / "b.tar.xz")]) == 4
    assert not (tmp_path / "b.tar.xz").exists()


@pytest.mark.slow
def test_bad_archives_and_outputs(archives: tuple[Path, Path], tmp_path: Path) -> None:
    data = archives[0].read_bytes()
    (tmp_path / "short.tar.xz").write_bytes(data[: len(data) // 2])
    assert main(["verify", str(tmp_path / "short.tar.xz")]) == 4
    (tmp_path / "none").write_text("no archive")
    assert main(["verify", str(tmp_path / "none")]) == 2
    with tarfile.open(tmp_path / "link.tar", "w") as out:
        member = tarfile.TarInfo("c/plan.json")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        out.addfile(member)
    assert main(["verify", str(tmp_path / "link.tar")]) == 2
    with tarfile.open(tmp_path / "up.tar", "w") as out:
        out.addfile(tarfile.TarInfo("../c/plan.json"))
    assert main(["verify", str(tmp_path / "up.tar")]) == 2
    assert main(["bundle", str(EXAMPLE), "--output", str(tmp_path / "none")]) == 2
    assert main(["bundle", str(EXAMPLE), "--output", str(tmp_path / "no/such/b.tar.xz")]) == 2


@pytest.mark.slow
def test_views_take_an_archive(
    archives: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["compare", "--format", "csv"], ["status", "--format", "json"]):
        name, *options = command
        assert main([name, str(EXAMPLE), *options]) == 0
        of_folder = capsys.readouterr().out
        assert main([name, str(archives[0]), *options]) == 0
        assert capsys.readouterr().out == of_folder
    assert main(["report", str(archives[0])]) == 0
    assert capsys.readouterr().out == "example-report/index.html\n"
    page = (tmp_path / "example-report/index.html").read_text()
    assert "zlfs--r01" in page
    assert 'href=""' not in page
    assert "result.json" not in re.findall(r'href="([^"]*)"', page)  # no links to removed files
    assert "zonelab-" not in page  # nor the temporary folder
    assert [path.name for path in tmp_path.iterdir()] == ["example-report"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compare", "status", "report"])
def test_views_refuse_an_edited_archive(
    archives: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    edited = rewritten(archives[0], tmp_path / "x.tar.xz", {"example/plan.json": b"{}"})
    assert main([command, str(edited)]) == 4
    assert "differs from its checksums" in capsys.readouterr().err
