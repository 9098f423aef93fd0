"""The root hash of a campaign, in bundle and report, and its signature by ssh-keygen."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.store import checksums
from harness.store.campaign import CampaignPaths
from harness.store.root import listing, root_hash
from tests.fixtures.forged import F2FS, campaign, put, seal

NAME = "alice@example.org"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return campaign(tmp_path_factory.mktemp("root") / "example")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the key of Alice, another key, and a file of allowed signers."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "other"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True)
    public = (folder / "alice.pub").read_text()
    (folder / "allowed").write_text(f"{NAME} {public}")
    return folder


def test_every_part_of_a_campaign_changes_the_root_hash(whole: Path, tmp_path: Path) -> None:
    root = root_hash(CampaignPaths(whole))
    files = ("plan.json", "campaign.json", "hosts/rig/host.json", f"{F2FS}/raw/kernel.log")
    for number, file in enumerate(files):
        copy = shutil.copytree(whole, tmp_path / str(number))
        (copy / file).write_text((copy / file).read_text() + " ")
        seal(copy)
        assert root_hash(CampaignPaths(copy)) != root, file
    copy = shutil.copytree(whole, tmp_path / "without")
    shutil.rmtree(copy / F2FS)
    assert root_hash(CampaignPaths(copy)) != root


def test_the_root_hash_is_that_of_a_list_of_checksums(whole: Path) -> None:
    lines = listing(CampaignPaths(whole)).splitlines()
    names = [line.partition("  ")[2] for line in lines]
    assert names == sorted(names)
    assert names[:2] == ["campaign.json", "hosts/rig/host.json"]
    assert f"{F2FS}/SHA256SUMS" in names
    for line in lines:
        digest, _, name = line.partition("  ")
        assert digest == checksums.digest(whole / name)
    text = "".join(f"{line}\n" for line in lines)
    wanted = hashlib.sha256(text.encode()).hexdigest()
    assert root_hash(CampaignPaths(whole)) == f"sha256:{wanted}"


def bundled(whole: Path, target: Path, *options: str) -> Path:
    assert main(["bundle", str(whole), "--no-report", "--output", str(target), *options]) == 0
    return target


@pytest.mark.slow
def test_a_bundle_has_the_root_hash_and_verify_compares_it(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = root_hash(CampaignPaths(whole))
    archive = bundled(whole, tmp_path / "b.tar.xz")
    assert f"root hash: {root}" in capsys.readouterr().err
    with tarfile.open(archive) as stream:
        record = json.load(stream.extractfile("example/bundle.json") or io.BytesIO())
        stream.extractall(tmp_path / "out", filter="data")
    assert record["root"] == root
    assert main(["verify", str(archive)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == f"root hash: {root}"
    copy = tmp_path / "out" / "example"
    put("bundle.json", "root", value="sha256:0")(copy)
    checksums.write(copy)
    assert main(["verify", str(copy)]) == 4
    assert capsys.readouterr().out == f"bundle.json: root: has sha256:0, the files give {root}\n"


@pytest.mark.needs("ssh-keygen")
@pytest.mark.slow
def test_verify_names_the_signer(
    whole: Path, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = bundled(whole, tmp_path / "b.tar.xz", "--sign", str(keys / "alice"))
    capsys.readouterr()
    assert main(["verify", str(archive)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("signed with ED25519 key SHA256:")
    assert len(lines) == 3  # a key alone has no name
    assert main(["verify", str(archive), "--signers", str(keys / "allowed")]) == 0
    assert capsys.readouterr().out.splitlines()[3] == f"signed by {NAME}"


@pytest.mark.needs("ssh-keygen")
@pytest.mark.slow
def test_a_signature_of_another_key_or_campaign_is_refused(
    whole: Path, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = bundled(whole, tmp_path / "b.tar.xz", "--sign", str(keys / "other"))
    assert main(["verify", str(archive), "--signers", str(keys / "allowed")]) == 4
    assert "root.sig: is no signature of an allowed signer" in capsys.readouterr().out
    plain = bundled(whole, tmp_path / "plain.tar.xz")
    assert main(["verify", str(plain), "--signers", str(keys / "allowed")]) == 4
    assert "root.sig: is missing" in capsys.readouterr().out
    with tarfile.open(archive) as stream:
        stream.extractall(tmp_path / "out", filter="data")
    copy = tmp_path / "out" / "example"
    put("campaign.json", "created", value="2020-01-01T00:00:00+00:00")(copy)
    put("bundle.json", "root", value=root_hash(CampaignPaths(copy)))(copy)
    assert main(["verify", str(copy)]) == 4
    assert "root.sig: is no signature of the root hash sha256:" in capsys.readouterr().out


@pytest.mark.needs("ssh-keygen")
def test_a_key_that_cannot_sign_leaves_no_bundle(whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "b.tar.xz"
    options = ["--no-report", "--output", str(output), "--sign", str(tmp_path / "none")]
    assert main(["bundle", str(whole), *options]) != 0
    assert not output.exists()


@pytest.mark.slow
def test_a_bundle_with_hashed_identities_verifies_with_its_study(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = bundled(whole, tmp_path / "b.tar.xz", "--hash-identities")
    capsys.readouterr()
    assert main(["verify", str(archive)]) == 0
    assert root_hash(CampaignPaths(whole)) not in capsys.readouterr().out
