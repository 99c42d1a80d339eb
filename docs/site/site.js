/* SPDX-License-Identifier: BSD-3-Clause */
/* What the theme leaves out for readers without a mouse: names of regions, and the keyboard in tables and code that scroll. */
function nameRegions() {
  let number = 0;
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const element of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (element.scrollWidth <= element.clientWidth) {
      element.removeAttribute("tabindex");
      continue;
    }
    element.tabIndex = 0;
    element.setAttribute("role", "region");
    element.setAttribute("aria-label", `${element.tagName === "CODE" ? "Code" : "Table"} ${++number}`);
  }
}
addEventListener("load", nameRegions);
addEventListener("resize", nameRegions);
