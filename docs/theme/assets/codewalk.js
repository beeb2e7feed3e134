/* Comfort only: every page is whole without it. It hangs on document$, which
   Material fires at the first page and after each instant navigation, so all
   that it does must be harmless when done twice. */
(() => {
  "use strict";

  const chinese = () => document.documentElement.lang.startsWith("zh");
  const words = () =>
    chinese()
      ? { copy: "复制", copied: "已复制", failed: "未能复制" }
      : { copy: "Copy", copied: "Copied", failed: "Not copied" };

  /* The lines as they are in the file: no numbers, no lines around them, and
     none that is gone. */
  const linesOf = (embed) => embed.querySelectorAll(".cw-line[data-line]");
  const textOf = (embed) => Array.from(linesOf(embed), (line) => line.textContent).join("");

  /* The clipboard needs a secure page, and a book served in a local network
     is none: there the old way still works. */
  const copy = async (text) => {
    if (navigator.clipboard && window.isSecureContext) {
      await navigator.clipboard.writeText(text);
      return;
    }
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "cw-hidden";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("copy");
  };

  window.codewalk = { copy };

  const addCopy = (embed) => {
    const links = embed.querySelector(".cw-links");
    if (!links || links.querySelector(".cw-copy") || !linesOf(embed).length) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "cw-copy";
    button.textContent = words().copy;
    let timer = 0;
    button.addEventListener("click", async () => {
      const say = words();
      try {
        await copy(textOf(embed));
        button.textContent = say.copied;
      } catch (error) {
        button.textContent = say.failed;
      }
      button.focus();
      clearTimeout(timer);
      timer = setTimeout(() => { button.textContent = say.copy; }, 2000);
    });
    const repository = links.querySelector(".cw-repo");
    links.insertBefore(button, repository);
  };

  /* A fade where code goes on to the right. */
  const measure = (pre) => {
    const rest = pre.scrollWidth - pre.clientWidth - pre.scrollLeft;
    pre.classList.toggle("cw-more", rest > 2);
  };

  const sizes = "ResizeObserver" in window
    ? new ResizeObserver((entries) => entries.forEach((entry) => measure(entry.target)))
    : null;

  const watchWidth = (pre) => {
    if (pre.dataset.cwWatched) return;
    pre.dataset.cwWatched = "true";
    pre.addEventListener("scroll", () => measure(pre), { passive: true });
    if (sizes) sizes.observe(pre);
    measure(pre);
  };

  /* A table of plain Markdown scrolls by itself when it is wide: then the
     keyboard has to reach it. */
  const reach = (box) => {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };

  const reachAll = () => document.querySelectorAll(".md-typeset__scrollwrap").forEach(reach);

  /* The header outlives an instant navigation; its links to the other
     languages are those of the page that was read before. */
  const updateLanguages = () => {
    const here = document.querySelector("template.cw-languages-here");
    const header = document.querySelector(".md-header .cw-languages");
    if (here && header) header.replaceWith(here.content.cloneNode(true));
  };

  const start = () => {
    updateLanguages();
    document.querySelectorAll(".cw-embed").forEach(addCopy);
    document.querySelectorAll(".cw-pre").forEach(watchWidth);
    reachAll();
  };

  window.addEventListener("resize", reachAll, { passive: true });

  /* The foot of a printed page: where it was open, without the place in it. */
  window.addEventListener("beforeprint", () => {
    if (!location.protocol.startsWith("http")) return;
    document.querySelectorAll(".cw-print-address").forEach((address) => {
      address.textContent = location.href.split("#")[0];
    });
  });

  if (typeof document$ !== "undefined") document$.subscribe(start);
  else if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
