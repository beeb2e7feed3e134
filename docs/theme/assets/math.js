/* Sets the formulas of a page with KaTeX, which lies beside this file and is
   loaded by the first page that has one. Its stylesheet is in extra_css: what
   a script adds to the head is gone after an instant navigation. Without
   scripts, or when KaTeX cannot read a formula, its TeX stays as text. */
(() => {
  "use strict";

  const home = new URL("katex/", document.currentScript.src);
  let loading = null;

  const load = () => {
    loading = loading || new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("katex.min.js", home).href;
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(script);
    });
    return loading;
  };

  /* What pymdownx.arithmatex writes: \( … \) in the text, \[ … \] alone. */
  const set = (element) => {
    const match = /^\s*(?:\\\(([^]*)\\\)|\\\[([^]*)\\\])\s*$/.exec(element.textContent);
    if (!match) return;
    const displayMode = match[2] !== undefined;
    try {
      /* Not render(): it empties the element before it reads the formula. */
      element.innerHTML = window.katex.renderToString(displayMode ? match[2] : match[1], { displayMode });
      element.classList.add("cw-set");
    } catch (error) {
      console.warn("a formula could not be set:", error.message);
    }
  };

  /* A formula wider than the text scrolls by itself: then the keyboard has to
     reach it. Only when the fonts are there is its width known. */
  const reach = () =>
    document.querySelectorAll("div.arithmatex").forEach((box) => {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });

  window.addEventListener("resize", reach, { passive: true });

  const start = () => {
    const formulas = document.querySelectorAll(".arithmatex:not(.cw-set)");
    if (formulas.length === 0) return;
    load().then(() => {
      formulas.forEach(set);
      document.fonts.ready.then(reach);
    }, () => {});
  };

  if (typeof document$ !== "undefined") document$.subscribe(start);
  else if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
