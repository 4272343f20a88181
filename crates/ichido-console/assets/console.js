// What the console does better with a script, never what it needs one for: parts of a page that refresh themselves, sliders that
// simulate while they move, and one box that ticks all others. The server sends the same pages to everybody.
"use strict";

(() => {
  const parser = new DOMParser();
  const root = document.documentElement;
  root.classList.add("scripted");

  // Whoever types, has opened or closed something or has ticked a box is not disturbed.
  const isTyped = (field) => field.type !== "checkbox" && field.value !== field.defaultValue;
  const isFreeze = (element) => element !== null && element.id === "freeze";
  const isBusy = (part) =>
    (!isFreeze(document.activeElement) && part.contains(document.activeElement)) ||
    part.querySelector("details[open]:not([data-open]), details[data-open]:not([open]), input:checked") !== null ||
    [...part.querySelectorAll("input, textarea")].some(isTyped);

  // A message that is done, an error group that is new: the page has other parts than before, so all of it is swapped.
  const names = (page) => [...page.querySelectorAll("main [data-live]")].map((part) => part.id).join(" ");
  const swapAll = (fresh) => {
    const main = document.querySelector("main");
    const next = fresh.querySelector("main");
    if (!next || [...main.children].some(isBusy)) return;
    const whole = document.importNode(next, true);
    whole.prepend(...main.querySelectorAll(":scope > .flash"));
    const hadFocus = isFreeze(document.activeElement);
    main.replaceWith(whole);
    const button = offer();
    if (hadFocus && button) button.focus();
  };

  const swap = (html, only) => {
    const fresh = parser.parseFromString(html, "text/html");
    if (!only && names(fresh) !== names(document)) swapAll(fresh);
    for (const part of document.querySelectorAll(only || "[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (next && (only || !isBusy(part)) && next.outerHTML !== part.outerHTML) {
        part.replaceWith(document.importNode(next, true));
      }
    }
  };

  // What is on the screen must not be taken for the present when it is not.
  const LOST = 10000;
  let lost = 0;
  const tell = (why) => {
    clearTimeout(lost);
    lost = 0;
    document.getElementById("stale").textContent = why ? `Not refreshed: ${why}` : "";
    root.classList.toggle("is-live", !why);
  };

  // A hidden tab asks for nothing, and neither does a frozen page.
  let events = null;
  let frozen = false;
  const close = () => {
    if (events) events.close();
    events = null;
    tell("");
    root.classList.remove("is-live");
  };
  const failed = () => {
    root.classList.remove("is-live");
    lost ||= setTimeout(() => tell("the console does not answer"), LOST);
    if (!events || events.readyState !== EventSource.CLOSED) return;
    // The browser does not try again by itself.
    events = null;
    setTimeout(live, LOST);
  };
  const live = () => {
    const wanted = !document.hidden && !frozen && document.querySelector("main [data-live]") !== null;
    if (!wanted) return close();
    if (events) return;
    events = new EventSource(location.href);
    events.addEventListener("open", () => tell(""));
    events.addEventListener("page", (event) => {
      tell("");
      swap(event.data);
    });
    events.addEventListener("away", (event) => tell(event.data));
    events.addEventListener("error", failed);
  };

  // Whoever reads may hold the page as it is.
  const offer = () => {
    const button = document.getElementById("freeze");
    if (button) {
      button.hidden = false;
      button.textContent = frozen ? "Unfreeze" : "Freeze";
    }
    return button;
  };
  document.addEventListener("click", (event) => {
    if (!isFreeze(event.target)) return;
    frozen = !frozen;
    offer();
    live();
  });

  document.addEventListener("visibilitychange", live);
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", () => {
    offer();
    live();
  });

  // A slider tells its value at once, and what follows from it a moment later.
  let pending = 0;
  let asked = 0;
  const simulate = async (form) => {
    const url = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`;
    const mine = ++asked;
    const answer = await fetch(url, { headers: { Accept: "text/html" } }).catch(() => null);
    if (!answer || mine !== asked) return;
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
