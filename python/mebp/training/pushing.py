# SPDX-License-Identifier: Apache-2.0
"""--push-to-hub: an adapter and what lies beside it, as a repository of the hub."""

import glob
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from mebp.adapters.origin import FILE as ORIGIN
from mebp.errors import Error, explained
from mebp.exporter.tokenizer import tokenizer_files
from mebp.extras import need_packages
from mebp.files import own_file
from mebp.remote_adapters import adapter_kinds
from mebp.training.keeping import CONFIG, VALUE_FILES
from mebp.training.model_card import CARD
from mebp.words import is_terminal


class UploadError(Error):
    """The run has ended well and its adapter is on the disk."""


def check_push(repository: str | None) -> None:
    """Raises mebp.Error where the upload, hours later, could not even begin. Nothing is sent."""
    if repository is None:
        return
    need_packages("--push-to-hub", "hub", "huggingface_hub")
    from huggingface_hub import constants, get_token
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError:
        raise Error(
            f"--push-to-hub {repository}: is not a name on the hub; give OWNER/NAME, of letters, digits, '-', '_' and "
            "'.'"
        ) from None
    if constants.HF_HUB_OFFLINE:
        raise Error(f"--push-to-hub {repository}: HF_HUB_OFFLINE keeps the hub away; unset it, or leave the option out")
    if get_token() is None:
        raise Error(f"--push-to-hub {repository}: there is no token for the hub; run hf auth login, or set HF_TOKEN")


def push(repository: str, folder: Path, progress: bool = True) -> str:
    """Uploads the adapter in `folder` and returns its page. A repository that is not there is made, and is private.

    Raises UploadError with the command that uploads it later."""
    from huggingface_hub import HfApi

    hub = HfApi(library_name="mebp")
    try:
        with nullcontext() if progress and is_terminal(sys.stderr) else _without_bars():
            made = hub.create_repo(repository, private=True, exist_ok=True)
            hub.upload_folder(
                repo_id=made.repo_id,
                folder_path=folder,
                allow_patterns=[glob.escape(name) for name in adapter_files(folder)],
                commit_message="Upload the adapter of mebp train",
            )
    except Exception as error:  # the library's, and those of what it connects by
        later = shlex.join(["hf", "upload", repository, str(folder), "--private"])
        raise UploadError(
            f"--push-to-hub {repository}: could not upload{explained(error)}; the adapter is in {folder}, and {later} "
            "uploads it later"
        ) from error
    return str(made)


@contextmanager
def _without_bars() -> Iterator[None]:
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown = not are_progress_bars_disabled()
    if shown:
        disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            enable_progress_bars()


def adapter_files(folder: Path) -> list[str]:
    """Names of what makes up the adapter in `folder`. What else lies there, such as a state, a log or data, is not for
    others."""
    tensors = [kind.file for kind in adapter_kinds()]
    names = [CONFIG, *tensors, *VALUE_FILES, CARD, ORIGIN]
    return [*(name for name in names if own_file(folder / name).is_file()), *tokenizer_files(folder)]
