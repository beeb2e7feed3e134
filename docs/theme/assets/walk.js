/* Light: what a chip names, in the code that stands on the same page, and the
   chips that name the line one points at. On walk pages a click pins it. Only
   the code's own scroll position is ever moved. */
(() => {
  "use strict";

  const KEY = "cw-follow";
  const wide = window.matchMedia("(min-width: 84.5em)");
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const chinese = () => document.documentElement.lang.startsWith("zh");
  let pinned = null;

  const stored = () => {
    try { return localStorage.getItem(KEY); } catch (error) { return null; }
  };
  const store = (value) => {
    try { localStorage.setItem(KEY, value); } catch (error) { /* storage is off */ }
  };

  const isWalk = () => document.querySelector(".cw-walk") !== null;
  const follows = () => !isWalk() || !wide.matches || stored() !== "off";
  const chips = () => document.querySelectorAll("a.cw-ref[data-src]");
  const range = (element) => [Number(element.dataset.start), Number(element.dataset.end)];
  const closest = (target, selector) => (target instanceof Element ? target.closest(selector) : null);

  /* The lines of a chip in some code, without those that are folded away. */
  const linesOf = (chip, embed) => {
    const [start, end] = range(chip);
    return Array.from(embed.querySelectorAll(".cw-line[data-line]")).filter((line) => {
      const number = Number(line.dataset.line);
      return start <= number && number <= end && !line.closest("details:not([open])");
    });
  };

  /* The code that holds all lines of a chip; in its own section, if it can. */
  const embedOf = (chip, scope) => {
    const [start, end] = range(chip);
    return Array.from(scope.querySelectorAll(".cw-embed[data-src]")).find((embed) => {
      const [first, last] = range(embed);
      const holds = embed.dataset.src === chip.dataset.src && first <= start && end <= last;
      return holds && linesOf(chip, embed).length > 0;
    });
  };
  const beside = (chip) => {
    const section = chip.closest(".cw-walk");
    return section ? embedOf(chip, section) : undefined;
  };

  const move = (pane, top) => {
    const from = pane.scrollTop;
    const to = Math.max(0, Math.min(top, pane.scrollHeight - pane.clientHeight));
    if (calm.matches || from === to) { pane.scrollTop = to; return; }
    const begun = performance.now();
    const step = (now) => {
      const part = Math.min(1, Math.max(0, (now - begun) / 180));
      pane.scrollTop = from + (to - from) * (1 - (1 - part) ** 2);
      if (part < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  };

  const show = (lines) => {
    const pane = lines[0].closest(".cw-pre");
    if (pane.scrollHeight <= pane.clientHeight + 1) return;
    const box = pane.getBoundingClientRect();
    const top = lines[0].getBoundingClientRect().top - box.top;
    const bottom = lines[lines.length - 1].getBoundingClientRect().bottom - box.top;
    if (top < 0 || bottom > pane.clientHeight) move(pane, pane.scrollTop + top - 16);
  };

  const light = (chip) => {
    const embed = beside(chip) || embedOf(chip, document);
    if (!embed) return;
    const lines = linesOf(chip, embed);
    lines.forEach((line) => line.classList.add("cw-lit"));
    show(lines);
  };

  const lightChips = (line) => {
    const source = line.closest(".cw-embed").dataset.src;
    const number = Number(line.dataset.line);
    chips().forEach((chip) => {
      const [start, end] = range(chip);
      if (chip.dataset.src === source && start <= number && number <= end) chip.classList.add("cw-lit");
    });
  };

  const dim = () => {
    document.querySelectorAll(".cw-lit").forEach((element) => element.classList.remove("cw-lit"));
    if (pinned) light(pinned);
  };

  const release = () => {
    if (pinned) pinned.classList.remove("cw-pinned");
    pinned = null;
    dim();
  };

  const point = (target) => {
    if (!follows()) return;
    const chip = closest(target, "a.cw-ref[data-src]");
    const line = closest(target, ".cw-embed .cw-line[data-line]");
    if (!chip && !line) return;
    dim();
    if (chip) light(chip);
    else lightChips(line);
  };

  const click = (event) => {
    const chip = closest(event.target, "a.cw-ref[data-src]");
    const other = event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
    if (!chip || other || !wide.matches || !follows() || !beside(chip)) return;
    event.preventDefault();
    event.stopPropagation();
    const again = pinned === chip;
    release();
    if (!again) {
      pinned = chip;
      chip.classList.add("cw-pinned");
    }
    light(chip);
  };

  /* The arrows go from step to step in the strip. */
  const walkStrip = (event) => {
    const segment = closest(event.target, ".cw-strip > a");
    const next = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
    if (!segment || !next || !segment[next]) return;
    event.preventDefault();
    segment[next].focus();
  };

  const addFollow = () => {
    const contents = document.querySelector(".cw-walk > .cw-chapter");
    if (!contents || document.querySelector(".cw-follow")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "cw-follow";
    button.textContent = chinese() ? "代码随文字亮起" : "Follow";
    button.title = chinese() ? "指到一处，对应的代码就亮起" : "Light the code that the text points at";
    const say = () => button.setAttribute("aria-pressed", String(stored() !== "off"));
    button.addEventListener("click", () => {
      store(stored() === "off" ? "on" : "off");
      say();
      release();
    });
    say();
    contents.after(button);
  };

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse") point(event.target);
  });
  document.addEventListener("pointerout", (event) => {
    if (event.pointerType !== "mouse") return;
    if (closest(event.target, "a.cw-ref, .cw-embed .cw-line")) dim();
  });
  document.addEventListener("focusin", (event) => point(event.target));
  document.addEventListener("focusout", (event) => {
    if (closest(event.target, "a.cw-ref")) dim();
  });
  /* Before Material's own listener, which would leave the page. */
  document.addEventListener("click", click, true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && pinned) release();
    else walkStrip(event);
  });

  const start = () => {
    pinned = null;
    addFollow();
  };

  if (typeof document$ !== "undefined") document$.subscribe(start);
  else if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
