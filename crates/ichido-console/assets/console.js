// What the console does better with a script, never what it needs one for: parts of a page that refresh themselves, sliders that
// simulate while they move, and one box that ticks all others. The server sends the same pages to everybody.
"use strict";

(() => {
  const parser = new DOMParser();
  document.documentElement.classList.add("scripted");

  // Whoever types, has opened something or has ticked a box is not disturbed.
  const isTyped = (field) => field.type !== "checkbox" && field.value !== field.defaultValue;
  const isBusy = (part) =>
    part.contains(document.activeElement) ||
    part.querySelector("details[open], input:checked") !== null ||
    [...part.querySelectorAll("input, textarea")].some(isTyped);

  const swap = (html, only) => {
    const fresh = parser.parseFromString(html, "text/html");
    for (const part of document.querySelectorAll(only || "[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (next && (only || !isBusy(part)) && next.outerHTML !== part.outerHTML) {
        part.replaceWith(document.importNode(next, true));
      }
    }
  };

  // A hidden tab asks for nothing.
  let events = null;
  const live = () => {
    const wanted = !document.hidden && document.querySelector("[data-live]") !== null;
    if (wanted && !events) {
      events = new EventSource(location.href);
      events.addEventListener("page", (event) => swap(event.data));
      events.addEventListener("open", () => document.documentElement.classList.add("is-live"));
      events.addEventListener("error", () => document.documentElement.classList.remove("is-live"));
    } else if (!wanted && events) {
      events.close();
      events = null;
      document.documentElement.classList.remove("is-live");
    }
  };
  document.addEventListener("visibilitychange", live);
  window.addEventListener("pagehide", () => {
    if (events) events.close();
    events = null;
  });
  window.addEventListener("pageshow", live);

  // A slider tells its value at once, and what follows from it a moment later.
  let pending = 0;
  let asked = 0;
  const simulate = async (form) => {
    const url = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`;
    const mine = ++asked;
    const answer = await fetch(url, { headers: { Accept: "text/html" } });
    const html = await answer.text();
    if (mine !== asked) return;
    swap(html, "#forecast");
    history.replaceState(null, "", url);
  };
  document.addEventListener("input", (event) => {
    const field = event.target;
    if (field.type === "range") {
      const shown = field.closest("label").querySelector("output");
      if (shown) shown.textContent = `${field.value}${field.dataset.unit || ""}`;
    }
    const form = field.closest("form[data-simulate]");
    if (form) {
      clearTimeout(pending);
      pending = setTimeout(() => simulate(form), 120);
    }
    if (field.matches("[data-all]")) {
      for (const box of field.form.querySelectorAll("input[name=id]")) box.checked = field.checked;
    }
  });
})();
