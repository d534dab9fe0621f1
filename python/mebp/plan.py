# SPDX-License-Identifier: Apache-2.0
"""The memory plan, readable."""

from mebp.tables import Table, megabytes

# What each arena holds; `source` is the compiler's own word on it.
_MEANINGS = {
    "checkpoints": "{source}, kept for the backward pass",
    "kept": "values {source}, for the backward pass",
    "cotangents": "gradients {source}",
    "optimizer": "state of {source}",
    "scratch": "values within the largest program, {source}",
    "workspace": "the kernels' own, {source}",
}
_SHOWN_VALUES = 10


class Plan(dict):
    """A plan's figures, in bytes and seconds, by their names in format/program.proto; to read it, print it or show it
    in a notebook."""

    def __init__(self, description: dict, **figures: int) -> None:
        """The plan within a bundle's description (mebp.inspect), and `figures` that are not in it."""
        plan = dict(description["plan"])
        buffers = plan.pop("buffers")
        chunk_sizes = {name: plan.pop(name) for name in ("chunk", "loss_rows", "loss_columns")}
        super().__init__(
            **plan,
            weights_bytes=description["weights_bytes"],
            python_bytes=description["python_bytes"],
            **figures,
            arenas={buffer["name"]: buffer["bytes"] for buffer in buffers},
            chunk_sizes=chunk_sizes,
        )
        self._model = description["model"]
        self._sources = {buffer["name"]: buffer["source"] for buffer in buffers}

    def tables(self) -> list[Table]:
        """What the peak is made of, what is in use where the scratch arena is fullest, and what generating text needs,
        if the bundle can."""
        return [self.peak_table(), self._fullest(), *self.generation_tables()]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self.tables())

    def peak_table(self) -> Table:
        parts = {"process": self["process_bytes"], **self["arenas"]}
        rows = [
            [name, megabytes(size), f"{100 * size / self['peak_bytes']:.0f} %", self._meaning(name)]
            for name, size in sorted(parts.items(), key=lambda part: -part[1])
        ]
        rows.append(["peak", megabytes(self["peak_bytes"]), "", "all memory that the process allocates or writes"])
        own = self.get("planned_peak_bytes", self["peak_bytes"])
        if own != self["peak_bytes"]:
            rows.append(["session", megabytes(own), "", "the peak with the options and threads of this session"])
        rows.append(
            ["weights", megabytes(self["weights_bytes"]), "", "mapped from disk, read only; not counted in the peak"]
        )
        if "device" not in self["arenas"]:  # which has the weights, too
            rows += self._together(own)
        if self["in_flight_bytes"]:
            more = "each micro-batch in flight beyond the first, where a step has several"
            rows.append(["in flight", megabytes(self["in_flight_bytes"]), "", more])
        if self["file_bytes"]:
            rows.append(["written to disk", megabytes(self["file_bytes"]), "", "in each step, and read back"])
        if self["peak_bytes_without_spill"]:
            rows.append(["without writing", megabytes(self["peak_bytes_without_spill"]), "", self._without_spill()])
        title = (
            f"planned peak: {megabytes(self['peak_bytes'])} MB ({self['optimizer']}, batch {self._model['batch']}, "
            f"up to {self._model['sequence']} tokens)"
        )
        return Table(title, ["what", "MB", "share", ""], rows)

    def _together(self, peak: int) -> list[list[str]]:
        weights = min(self["weights_bytes"], self["resident_limit"] or self["weights_bytes"])
        everything = peak + weights + self["python_bytes"]
        return [
            ["Python", megabytes(self["python_bytes"]), "", "about; what mebp train adds, with little data"],
            ["together", megabytes(everything), "", "peak, weights and Python"],
        ]

    def _without_spill(self) -> str:
        seconds = self["seconds_without_spill"]
        if not seconds:
            return "the least that a plan needs which writes nothing (--spill none)"
        return f"the fastest plan within the budget that writes nothing (--spill none): {seconds:.2f} s a step"

    def _fullest(self) -> Table:
        values = self["at_peak"]
        rows = [[value["name"], megabytes(value["bytes"]), value["source"]] for value in values[:_SHOWN_VALUES]]
        rest = values[_SHOWN_VALUES:]
        if rest:
            rows.append([f"{len(rest)} smaller ones", megabytes(sum(value["bytes"] for value in rest)), ""])
        return Table("in use where the scratch arena is fullest", ["value", "MB", "of"], rows)

    def generation_tables(self) -> list[Table]:
        """One, or none where the bundle generates no text."""
        if not self["generation"]:
            return []
        parts = [{"name": "process", "bytes": self["process_bytes"], "source": "the runtime itself, measured"}]
        rows = [[part["name"], megabytes(part["bytes"]), part["source"]] for part in [*parts, *self["generation"]]]
        rows.append(
            ["peak", megabytes(self["generation_peak_bytes"]), "of a process that generates and does not train"]
        )
        title = f"generating text, prompt and answer up to {self._model['positions']} tokens"
        return [Table(title, ["what", "MB", ""], rows)]

    def _meaning(self, name: str) -> str:
        if name == "process":
            return "the runtime itself, measured"
        source = self._sources.get(name, "")
        return _MEANINGS.get(name, "{source}").format(source=source) if source else ""
