// SPDX-License-Identifier: Apache-2.0
const data = JSON.parse(document.getElementById("data").textContent);
const over = document.getElementById("over");
const cursor = document.getElementById("cursor");
const tip = document.getElementById("tip");

const megabytes = (bytes) => (bytes / 1e6).toFixed(2);

function line(name, value) {
  const row = document.createElement("div");
  const label = row.appendChild(document.createElement("span"));
  label.textContent = name;
  row.appendChild(document.createElement("b")).textContent = value;
  return row;
}

function show(event) {
  const box = over.getBoundingClientRect();
  const along = Math.min(0.999999, Math.max(0, (event.clientX - box.left) / box.width)) * data.stages.length;
  const stage = data.stages[Math.floor(along)];
  const { ops, scratch } = data.programs[stage.program];
  const position = Math.floor((along % 1) * ops.length);
  const inUse = { ...stage.inUse, scratch: scratch[position] };
  const total = Object.values(inUse).reduce((sum, bytes) => sum + bytes, 0);

  const title = document.createElement("strong");
  title.textContent = ops[position] ? `${stage.title}: ${ops[position]}` : stage.title;
  const rows = Object.entries(inUse).reverse().map(([name, bytes]) => line(name, megabytes(bytes)));
  tip.replaceChildren(title, ...rows, line("in use, MB", megabytes(total)));
  tip.style.display = "block";
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8)}px`;

  const x = Number(over.getAttribute("x")) + (along / data.stages.length) * Number(over.getAttribute("width"));
  cursor.setAttribute("x1", x);
  cursor.setAttribute("x2", x);
  cursor.setAttribute("visibility", "visible");
}

over.addEventListener("pointermove", show);
over.addEventListener("pointerdown", show); // a finger that taps does not move

over.addEventListener("pointerleave", () => {
  tip.style.display = "none";
  cursor.setAttribute("visibility", "hidden");
});
