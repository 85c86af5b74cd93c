// Puts what the server sends in place of what it stood for. Without this every page can be read all the same.
"use strict";
(() => {
  const live = document.getElementById("live");
  const state = document.getElementById("state");
  const say = text => { if (state.textContent !== text) state.textContent = text; };
  const source = new EventSource(live.dataset.from);
  source.onopen = () => say("Live.");
  source.onerror = () => say(source.readyState === EventSource.CLOSED
    ? "No longer live: load this page again." : "The console does not answer; trying again.");
  source.onmessage = event => {
    const next = document.createElement("template");
    next.innerHTML = event.data;
    const selected = document.getSelection();
    const parts = [...next.content.children];
    for (const part of parts) {
      const old = document.getElementById(part.id);
      if (!old) {
        live.append(part);
      } else if (old.outerHTML !== part.outerHTML && !(selected.type === "Range" && selected.containsNode(old, true))) {
        put(old, part);
      }
    }
    for (const old of [...live.children]) {
      if (!next.content.getElementById(old.id) && !parts.some(part => part.id === old.id)) old.remove();
    }
  };
  // put replaces a part; who has the focus in it, or has scrolled a table aside, keeps that.
  function put(old, part) {
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    const tag = active && active.tagName, at = active && [...old.querySelectorAll(tag)].indexOf(active);
    const href = active && active.getAttribute("href");
    const aside = [...old.querySelectorAll(".wide")].map(region => region.scrollLeft);
    old.replaceWith(part);
    part.querySelectorAll(".wide").forEach((region, i) => { region.scrollLeft = aside[i] || 0; });
    if (active) {
      const all = [...part.querySelectorAll(tag)];
      const again = href ? all.find(link => link.getAttribute("href") === href) : all[at];
      if (again) again.focus({preventScroll: true});
    }
  }
})();
