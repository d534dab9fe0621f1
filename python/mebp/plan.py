# SPDX-License-Identifier: Apache-2.0
"""The memory plan, readable."""

from mebp.tables import Table, megabytes

# What each arena holds; `source` is the compiler's own word on it.
_MEANINGS = {
    "checkpoints": "{source}, kept for the backward pass",
    "cotangents": "gradients {source}",
    "optimizer": "state of {source}",
    "scratch": "values within the largest program, {source}",
    "workspace": "the kernels' own, {source}",
}
_SHOWN_VALUES = 10


class Plan(dict):
    """A plan's figures by name, in bytes and seconds; print it, or show it in a notebook, to read it."""

    def __init__(self, description: dict, **figures: int) -> None:
        """The plan within a bundle's description (mebp.inspect), and `figures` that are not in it."""
        plan = description["plan"]
        super().__init__(
            peak_bytes=plan["peak_bytes"],
            process_bytes=plan["process_bytes"],
            weights_bytes=description["weights_bytes"],
            **figures,
            arenas={buffer["name"]: buffer["bytes"] for buffer in plan["buffers"]},
            chunk_sizes={
                "sequence": plan["chunk"],
                "loss_rows": plan["loss_rows"],
                "loss_columns": plan["loss_columns"],
            },
            checkpoint_spacing=plan["spacing"],
            spill="all" if plan["spill_optimizer"] else "checkpoints" if plan["spill_checkpoints"] else "none",
            file_bytes=plan["file_bytes"],
            resident_limit=plan["resident_limit"],
            live_bytes=plan["live_bytes"],
            budget_bytes=plan["budget_bytes"],
            at_peak=plan["at_peak"],
            optimizer=plan["optimizer"],
            threads=plan["threads"],
            predicted_seconds=plan["predicted_seconds"],
            calibrated=plan["calibrated"],
        )
        self._model = description["model"]
        self._sources = {buffer["name"]: buffer["source"] for buffer in plan["buffers"]}

    def tables(self) -> list[Table]:
        """What the peak is made of, and what is alive where the scratch arena is fullest."""
        return [self._peak(), self._fullest()]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self.tables())

    def _peak(self) -> Table:
        parts = {"process": self["process_bytes"], **self["arenas"]}
        rows = [
            [name, megabytes(size), f"{100 * size / self['peak_bytes']:.0f} %", self._meaning(name)]
            for name, size in sorted(parts.items(), key=lambda part: -part[1])
        ]
        rows.append(["peak", megabytes(self["peak_bytes"]), "", "anonymous and written memory of the whole process"])
        own = self.get("planned_peak_bytes", self["peak_bytes"])
        if own != self["peak_bytes"]:
            rows.append(["session", megabytes(own), "", "the peak with this session's own options and threads"])
        rows.append(["weights", megabytes(self["weights_bytes"]), "", "mapped, clean: beside the peak, not in it"])
        if self["file_bytes"]:
            rows.append(
                ["spilled", megabytes(self["file_bytes"]), "", "written to a file in each step, and read again"]
            )
        title = (
            f"planned peak: {megabytes(self['peak_bytes'])} MB ({self['optimizer']}, batch {self._model['batch']}, "
            f"up to {self._model['sequence']} tokens)"
        )
        return Table(title, ["what", "MB", "share", ""], rows)

    def _fullest(self) -> Table:
        values = self["at_peak"]
        rows = [[value["name"], megabytes(value["bytes"]), value["source"]] for value in values[:_SHOWN_VALUES]]
        rest = values[_SHOWN_VALUES:]
        if rest:
            rows.append([f"{len(rest)} smaller ones", megabytes(sum(value["bytes"] for value in rest)), ""])
        return Table("alive where the scratch arena is fullest", ["value", "MB", "of"], rows)

    def _meaning(self, name: str) -> str:
        if name == "process":
            return "the runtime itself, measured"
        source = self._sources.get(name, "")
        return _MEANINGS.get(name, "{source}").format(source=source) if source else ""
