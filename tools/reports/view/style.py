"""The style of the page, besides that of pictures of memory."""

STYLE = """
html, body { height: 100%; }
body { display: grid; grid-template-rows: auto 1fr; overflow: hidden; }
header { position: static; }
h1 small { font-weight: normal; color: var(--soft); margin-left: 8px; }
nav { display: flex; gap: 4px; }
nav button, .tools button {
  font: inherit; color: var(--text); background: var(--raised); cursor: pointer;
  border: 1px solid var(--line); border-radius: 5px; padding: 3px 12px;
}
nav button[aria-selected="true"] { border-color: var(--mark); color: var(--mark); }
nav button:disabled { color: var(--soft); cursor: default; }
#body { display: grid; grid-template-columns: 1fr 340px; min-height: 0; }
#views { position: relative; min-width: 0; min-height: 0; }
.view { position: absolute; inset: 0; }
#memory { overflow: auto; padding: 0 20px 40px; }
canvas {
  position: absolute; inset: 0; width: 100%; height: 100%; cursor: grab;
  background: var(--plot); touch-action: none; outline-offset: -2px;
}
canvas.dragging { cursor: grabbing; }
.tools { position: absolute; right: 12px; bottom: 12px; display: flex; gap: 4px; }
aside#side {
  border-left: 1px solid var(--line); overflow: auto; padding: 12px 16px 40px;
  overflow-wrap: anywhere;
}
aside h2 { margin: 0 0 6px; }
aside h3 { margin: 14px 0 4px; color: var(--soft); font-weight: normal; }
aside ul { list-style: none; margin: 0; padding: 0; }
aside li button {
  font: inherit; text-align: left; width: 100%; border: 0; padding: 2px 4px;
  background: none; color: var(--text); cursor: pointer; border-radius: 4px;
  overflow-wrap: anywhere;
}
aside li button:hover, aside li button.on { background: var(--line); }
aside li small { color: var(--soft); margin-left: 6px; }
aside p { margin: 4px 0; }
rect { cursor: pointer; }
@media (max-width: 760px) {
  #body { grid-template-columns: 1fr; grid-template-rows: 1fr 40%; }
  aside#side { border-left: 0; border-top: 1px solid var(--line); }
}
"""
