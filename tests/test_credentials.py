"""References to secrets: what they lead to, what is refused, and that no error tells a value."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from taskdeck.engine.credentials import MOST_BYTES, NoCredential, look_up
from taskdeck.engine.rules.references import command_of, fault_of, kind_of

SECRET = "hunter2-pass"


def kept(path: Path, text: str = f"{SECRET}\n", mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return f"file:{path}"


def test_each_form_leads_to_its_value_without_the_line_end(tmp_path: Path) -> None:
    folder = tmp_path / "credentials"
    folder.mkdir()
    kept(folder / "proxy.eu", mode=0o400)
    environ = {"PW": SECRET, "HOME": str(tmp_path), "CREDENTIALS_DIRECTORY": str(folder)}
    kept(tmp_path / "pw")
    for reference in ("env:PW", f"file:{tmp_path}/pw", "file:~/pw", "cred:proxy.eu"):
        assert look_up(reference, environ) == SECRET


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o644, 0o620, 0o601])
def test_a_file_that_others_may_use_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    reference = kept(tmp_path / "pw", mode=mode)
    with pytest.raises(NoCredential) as told:
        look_up(reference)
    assert f"chmod 600 {tmp_path}/pw" in str(told.value)
    assert SECRET not in str(told.value) + repr(told.value)
    assert look_up(reference, to_mask=True) == SECRET


def test_what_leads_nowhere_is_told_by_its_reference_and_never_by_what_was_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        kept(tmp_path / "long", SECRET * MOST_BYTES)
        kept(tmp_path / "nul", f"{SECRET}\0")
        kept(tmp_path / "empty", "\n")
        (tmp_path / "bytes").write_bytes(SECRET.encode() + b"\xff")
        (tmp_path / "bytes").chmod(0o600)
        names = ("pipe", "folder", "door", "long", "nul", "empty", "bytes", "missing")
        for reference in (
            "env:NOSUCH",
            "cred:nosuch",
            "cmd:true",
            *(f"file:{tmp_path}/{name}" for name in names),
        ):
            with pytest.raises(NoCredential) as told:
                look_up(reference, {})
            assert reference in str(told.value)
            assert SECRET not in str(told.value)
            assert told.value.__cause__ is None


def test_a_credential_of_systemd_is_a_plain_name_in_its_folder_and_no_way_out_of_it(tmp_path: Path) -> None:
    kept(tmp_path / "outside")
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    assert kind_of("cred:../outside") == kind_of("cred:a/b") == kind_of("cred:.") == ""
    with pytest.raises(NoCredential):
        look_up("cred:link", {"CREDENTIALS_DIRECTORY": str(folder)})


def test_a_command_is_split_without_a_shell_and_may_hold_no_secret() -> None:
    assert command_of("cmd:pass show 'proxy eu' $HOME;x") == ["pass", "show", "proxy eu", "$HOME;x"]
    assert fault_of("cmd:pass show proxy/eu") == ""
    assert "quotes" in fault_of("cmd:pass 'show")
    assert (
        fault_of("cmd:vault read --token hvs.CAESIJlU9l3vq0aT1b2c3d4e5f6g")
        == "a secret stands in the command"
    )
    for literal in (SECRET, "env:", "env:A-B", "file:relative", "cmd:", "cred:"):
        assert fault_of(literal).startswith("expected")
