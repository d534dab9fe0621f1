# SPDX-License-Identifier: Apache-2.0
"""Chats that people export from other apps, as conversations to train on: a file for each app, and a table of them."""

from mebp.data.importing.importing import Imported, import_chats

__all__ = ["Imported", "import_chats"]
