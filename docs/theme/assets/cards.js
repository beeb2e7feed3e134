/* Cards: the lines that a chip names, and where a value comes from. They open
   after a pause of the pointer, by Enter, or by a long press; a chip stays a
   link. The lines are taken from the page itself or from the file's source
   page, which is fetched once. */
(() => {
  "use strict";

  const CHIP = "a.cw-ref[data-src]";
  const VALUE = ".cw-value[data-card] > a";
  const PAUSE = 300;
  const PRESS = 450;
  const GAP = 6;
  const EDGE = 8;
  const MAX_LINES = 60;
  const phone = window.matchMedia("(max-width: 47.984375em)");
  const words = () =>
    document.documentElement.lang.startsWith("zh")
      ? { source: "源码", record: "完整记录", copy: "复制", copied: "已复制", failed: "未能复制", close: "关闭", more: (n) => `另有 ${n} 行` }
      : { source: "source", record: "the whole record", copy: "Copy", copied: "Copied", failed: "Not copied", close: "Close", more: (n) => `${n} more lines` };

  const pages = new Map();
  let shown = null; /* { trigger, card, asked }: asked: not by the pointer alone */
  let wanted = null; /* the trigger whose card is on its way */
  let opening = 0;
  let closing = 0;
  let pressing = 0;
  let pressed = false;

  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const closest = (target, selector) => (target instanceof Element ? target.closest(selector) : null);
  const triggerOf = (target) => closest(target, `${CHIP}, ${VALUE}`);
  const isChip = (trigger) => trigger.matches(CHIP);

  /* --- The lines of a chip --- */

  const load = (href) => {
    const url = new URL(href);
    url.hash = "";
    if (url.origin !== location.origin) return Promise.reject(new Error("another host"));
    if (!pages.has(url.href)) {
      const page = fetch(url.href).then((answer) => {
        if (!answer.ok) throw new Error(String(answer.status));
        return answer.text();
      }).then((text) => new DOMParser().parseFromString(text, "text/html"));
      page.catch(() => pages.delete(url.href));
      pages.set(url.href, page);
    }
    return pages.get(url.href);
  };

  const between = (start, end, find) => {
    const lines = [];
    for (let number = start; number <= end && lines.length < MAX_LINES; number += 1) {
      const line = find(number);
      if (!line) return null;
      const copy = make("span", "cw-line");
      copy.dataset.line = number;
      copy.innerHTML = line.innerHTML;
      lines.push(copy);
    }
    return lines;
  };

  const here = (chip, start, end) => {
    for (const embed of document.querySelectorAll(".cw-embed[data-src]")) {
      if (embed.dataset.src !== chip.dataset.src) continue;
      const lines = between(start, end, (number) => embed.querySelector(`[data-line="${number}"]`));
      if (lines) return lines;
    }
    return null;
  };

  const linesOf = async (chip) => {
    const [start, end] = [Number(chip.dataset.start), Number(chip.dataset.end)];
    const near = here(chip, start, end);
    if (near) return near;
    const page = await load(chip.href);
    return between(start, end, (number) => page.getElementById(`L${number}`));
  };

  /* Takes `count` characters off the front of an element's text. */
  const cut = (element, count) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (count > 0 && walker.nextNode()) {
      const text = walker.currentNode;
      const part = Math.min(count, text.length);
      text.deleteData(0, part);
      count -= part;
    }
  };

  const dedent = (lines) => {
    const filled = lines.filter((line) => line.textContent.trim());
    const indents = filled.map((line) => /^[ \t]*/.exec(line.textContent)[0].length);
    const common = indents.length ? Math.min(...indents) : 0;
    filled.forEach((line) => cut(line, common));
  };

  const codeCard = async (chip) => {
    const lines = await linesOf(chip);
    if (!lines || !lines.length) throw new Error("no such lines");
    dedent(lines);
    const [start, end] = [Number(chip.dataset.start), Number(chip.dataset.end)];
    const place = start === end ? `${start}` : `${start}–${end}`;
    const head = make("div", "cw-card-head");
    head.append(make("span", "cw-card-path", chip.dataset.src), make("span", "cw-card-range", place));
    const link = make("a", "cw-card-link", words().source);
    link.href = chip.href;
    head.append(link);
    const pre = make("pre", "cw-pre");
    pre.tabIndex = 0;
    pre.setAttribute("role", "region");
    pre.setAttribute("aria-label", `${chip.dataset.src} ${place}`);
    const code = make("code", "cw-code");
    code.append(...lines);
    pre.append(code);
    const left = end - start + 1 - lines.length;
    return [head, pre, ...(left > 0 ? [make("p", "cw-card-rest", words().more(left))] : [])];
  };

  /* --- Where a value comes from --- */

  const copyButton = (text) => {
    const button = make("button", "cw-card-copy", words().copy);
    button.type = "button";
    button.addEventListener("click", async () => {
      try {
        await window.codewalk.copy(text);
        button.textContent = words().copied;
      } catch (error) {
        button.textContent = words().failed;
      }
      button.focus();
    });
    return button;
  };

  const valueCard = async (trigger) => {
    const facts = JSON.parse(trigger.parentElement.dataset.card);
    const first = make("p", "cw-card-value");
    first.append(make("strong", "", facts.value));
    if (facts.spread) first.append(make("span", "", facts.spread));
    const command = make("p", "cw-card-command");
    command.append(make("code", "", facts.command), copyButton(facts.command));
    const last = make("p", `cw-card-state cw-card-${facts.fresh ? "fresh" : "old"}`);
    last.append(make("span", "", facts.state));
    const link = make("a", "cw-card-link", words().record);
    link.href = trigger.href;
    last.append(link);
    const parts = [first, make("p", "", facts.run)];
    if (facts.conditions) parts.push(make("p", "", facts.conditions));
    return [...parts, command, last];
  };

  /* --- The card --- */

  const place = () => {
    if (!shown) return;
    const { trigger, card } = shown;
    const rects = trigger.getClientRects();
    if (!rects.length) { close(); return; }
    const first = rects[0];
    const last = rects[rects.length - 1];
    const header = document.querySelector(".md-header");
    const top = header ? Math.max(0, header.getBoundingClientRect().bottom) : 0;
    if (last.bottom < top || first.top > window.innerHeight) { close(); return; }
    card.style.cssText = "";
    card.classList.remove("cw-card-top");
    if (phone.matches) {
      /* A sheet at the bottom; at the top for what it would cover there. */
      const covered = last.bottom > window.innerHeight - card.offsetHeight;
      card.classList.toggle("cw-card-top", covered);
      if (covered) {
        card.style.top = `${top}px`;
        card.style.maxHeight = `${Math.max(0, Math.min(window.innerHeight * 0.6, first.top - top - GAP))}px`;
      }
      return;
    }
    const below = window.innerHeight - last.bottom - GAP - EDGE;
    const above = first.top - top - GAP - EDGE;
    const height = card.offsetHeight;
    const under = height <= below || below >= above;
    const anchor = under ? last : first;
    const left = Math.min(anchor.left, document.documentElement.clientWidth - card.offsetWidth - EDGE);
    card.style.left = `${Math.max(EDGE, left)}px`;
    card.style.maxHeight = `${Math.max(0, under ? below : above)}px`;
    if (under) card.style.top = `${last.bottom + GAP}px`;
    else card.style.bottom = `${window.innerHeight - first.top + GAP}px`;
  };

  const close = (back = false) => {
    clearTimeout(opening);
    clearTimeout(closing);
    wanted = null;
    if (!shown) return;
    const { trigger, card } = shown;
    const inside = card.contains(document.activeElement);
    shown = null;
    card.remove();
    trigger.setAttribute("aria-expanded", "false");
    trigger.removeAttribute("aria-controls");
    if (back && inside) trigger.focus({ preventScroll: true });
  };

  /* What a screen reader says of a link. */
  const nameOf = (trigger) => {
    const copy = trigger.cloneNode(true);
    copy.querySelectorAll("[aria-hidden=true]").forEach((part) => part.remove());
    return copy.textContent.trim();
  };

  const open = async (trigger, asked) => {
    if (shown && shown.trigger === trigger) { shown.asked = shown.asked || asked; return; }
    close();
    wanted = trigger;
    let parts;
    try {
      parts = await (isChip(trigger) ? codeCard(trigger) : valueCard(trigger));
    } catch (error) {
      return; /* the link still leads there */
    }
    if (wanted !== trigger || !trigger.isConnected) return;
    const card = make("div", `cw-card ${isChip(trigger) ? "cw-card-code" : "cw-card-facts"}`);
    card.id = "cw-card";
    card.setAttribute("role", "group");
    card.setAttribute("aria-label", nameOf(trigger));
    const button = make("button", "cw-card-close", words().close);
    button.type = "button";
    button.addEventListener("click", () => close(true));
    card.append(button, ...parts);
    (isChip(trigger) ? trigger : trigger.parentElement).after(card);
    trigger.setAttribute("aria-expanded", "true");
    trigger.setAttribute("aria-controls", card.id);
    shown = { trigger, card, asked };
    place();
  };

  /* Lines that walk.js has lit need no card, while they can be seen. */
  const litInView = () =>
    Array.from(document.querySelectorAll(".cw-embed .cw-line.cw-lit")).some((line) => {
      const box = line.getBoundingClientRect();
      return box.height > 0 && box.top < window.innerHeight && box.bottom > 48;
    });

  const plain = (event) => !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return;
    if (closest(event.target, ".cw-card")) { clearTimeout(closing); return; }
    const trigger = triggerOf(event.target);
    if (!trigger) return;
    clearTimeout(opening);
    if (shown && shown.trigger === trigger) { clearTimeout(closing); return; }
    opening = setTimeout(() => {
      if (!isChip(trigger) || !litInView()) open(trigger, false);
    }, PAUSE);
  });

  document.addEventListener("pointerout", (event) => {
    if (event.pointerType !== "mouse") return;
    if (!triggerOf(event.target) && !closest(event.target, ".cw-card")) return;
    clearTimeout(opening);
    clearTimeout(closing);
    if (!shown) wanted = null;
    closing = setTimeout(() => {
      if (shown && !shown.asked && !shown.card.contains(document.activeElement)) close();
    }, PAUSE);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { close(true); return; }
    const trigger = triggerOf(event.target);
    if (!trigger || !plain(event)) return;
    if (event.key === "Enter" && isChip(trigger)) {
      /* The second Enter follows the link. */
      if ((shown && shown.trigger === trigger) || litInView() || !trigger.hasAttribute("aria-expanded")) return;
      event.preventDefault();
      open(trigger, true);
    } else if (event.key === " " && !isChip(trigger)) {
      event.preventDefault();
      trigger.click();
    }
  });

  /* Before Material's own listener, which would leave the page. */
  document.addEventListener("click", (event) => {
    const trigger = triggerOf(event.target);
    if (pressed && trigger) {
      event.preventDefault();
      event.stopPropagation();
      pressed = false;
      return;
    }
    if (trigger && !isChip(trigger) && plain(event) && event.button === 0) {
      event.preventDefault();
      event.stopPropagation();
      if (shown && shown.trigger === trigger && shown.asked) close();
      else open(trigger, true);
      return;
    }
    if (shown && !closest(event.target, ".cw-card")) close();
  }, true);

  document.addEventListener("pointerdown", (event) => {
    clearTimeout(pressing);
    pressed = false;
    const trigger = triggerOf(event.target);
    if (!trigger || event.pointerType === "mouse") return;
    pressing = setTimeout(() => {
      pressed = true;
      open(trigger, true);
    }, PRESS);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    document.addEventListener(name, () => clearTimeout(pressing));
  }
  document.addEventListener("contextmenu", (event) => {
    if (pressed && triggerOf(event.target)) event.preventDefault();
  });

  /* The focus went on: the card has been read. */
  document.addEventListener("focusin", (event) => {
    if (shown && event.target !== shown.trigger && !shown.card.contains(event.target)) close();
  });

  window.addEventListener("scroll", () => requestAnimationFrame(place), { passive: true });
  window.addEventListener("resize", place, { passive: true });

  const start = () => {
    close();
    const reachable = location.protocol.startsWith("http");
    document.querySelectorAll(reachable ? `${CHIP}, ${VALUE}` : VALUE).forEach((trigger) => {
      if (trigger.hasAttribute("aria-expanded")) return;
      trigger.setAttribute("aria-expanded", "false");
      trigger.removeAttribute("title");
      if (!isChip(trigger)) trigger.setAttribute("role", "button");
    });
  };

  if (typeof document$ !== "undefined") document$.subscribe(start);
  else if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
