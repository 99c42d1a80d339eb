# SPDX-License-Identifier: BSD-3-Clause
"""Looks at the built site in Chromium, wide and narrow, light and dark.

* Pictures of PAGES.
* axe-core's rules for these pages: contrast, names of links and buttons, order of headings, and others.
* The first Tab leads to a link to the content, which Enter follows. Each element that the next Tabs reach is visible and outlined.
* The search finds SEARCHES.
* No page loads anything from another machine, and no script fails.
"""

from browser import Browser

PAGES = ("index.html", "start/getting-started.html", "understand/how-it-works.html", "understand/bench-results.html",
         "operate/tuning.html", "command/command.html", "reference/settings.html", "reference/c-functions.html",
         "reference/cpp-classes.html", "reference/command-line.html", "migrate/migrating-from-jemalloc.html",
         "internals/architecture.html")
SIZES = {"wide": (1440, 1000), "narrow": (390, 844)}
# (what is typed, page that is among the results)
SEARCHES = (("dirty_decay_ms", "migrating-from-jemalloc"), ("soft limit", "system-memory"), ("trim", "control"),
            ("tcmalloc_owns", "c-functions"), ("MALLOC_ARENA_MAX", "migrating-from-glibc"), ("MIMALLOC_PURGE_DELAY", "migrating-from-mimalloc"),
            ("MALLOCX_TCACHE", "migrating-from-jemalloc"), ("heaptrack", "other-tools"))
FEW = 2  # of PAGES
MOST_TABS = 40
SEARCH_TRIES = 6
AXE = """axe.run(document, {resultTypes: ["violations"], rules: {"region": {enabled: false}}}).then(result =>
    result.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 4).map(n => n.target.join(" ") + " " +
      (n.any[0] ? n.any[0].message : "")).join("; ") + " (" + v.nodes.length + ")"))"""
# The input element of the colour switch is invisible: its label shows the icon.
FOCUS = """(() => { const a = document.activeElement, e = a.matches(".md-option") ? a.nextElementSibling : a, b = e.getBoundingClientRect(), s = getComputedStyle(e);
    return {tag: e.tagName, text: (e.textContent || e.title || e.placeholder || e.ariaLabel || "").trim().slice(0, 40),
            href: e.getAttribute("href") || "", inside: !!e.closest(".md-content"),
            seen: b.width > 0 && b.height > 0 && b.bottom > 0 && b.top < innerHeight && b.right > 0 && b.left < innerWidth,
            outlined: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0}; })()"""
RESULTS = """(() => { const links = [...document.querySelectorAll(".md-search-result__link")].map(a => a.href);
    return links; })()"""


def axe_source(site):
    found = sorted(site.parent.glob("python/lib/*/site-packages/axe_core_python/axe.min.js"))
    if not found:
        raise FileNotFoundError("axe-core is not installed: scripts/setup.sh docs")
    return found[0].read_text()


def failures_of_loading(browser, name):
    for event in browser.events:
        parameters = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            address = parameters["request"]["url"]
            if address.startswith(("http:", "https:", "ws:")):
                yield f"{name}: loads {address} from another machine"
        elif event["method"] == "Runtime.exceptionThrown":
            yield f"{name}: a script fails: {parameters['exceptionDetails'].get('text')}"
        elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            yield f"{name}: {parameters['entry']['text']} {parameters['entry'].get('url', '')}"


def check_keyboard(browser, name):
    for number in range(1, MOST_TABS + 1):
        browser.press("Tab")
        focus = browser.run(FOCUS)
        if focus["tag"] == "BODY":
            break  # that was the last
        if number == 1 and not focus["href"].startswith("#"):
            yield f"{name}: the first Tab does not lead to the content: {focus}"
        if not focus["seen"] or not focus["outlined"]:
            yield f"{name}: Tab {number} leads to what is not {'seen' if not focus['seen'] else 'outlined'}: {focus}"
    browser.run("document.querySelector('.md-skip').focus()")
    browser.press("Enter")
    browser.press("Tab")
    focus = browser.run(FOCUS)
    if not focus["inside"] and browser.run("!!document.querySelector('.md-content a')"):
        yield f"{name}: the link to the content leads to {focus}"


def search(browser, site, text):
    """The links of the results, [] when there are none after a while."""
    browser.open((site / "index.html").as_uri(), *SIZES["wide"], dark=False)
    browser.run("document.querySelector('[data-md-component=search-query]').focus()")
    browser.type(text)
    return browser.run("""new Promise(done => { let tries = 0; const look = () => { const found = %s;
        found.length || ++tries > 100 ? done(found) : setTimeout(look, 50); }; look(); })""" % RESULTS)


def check_search(browser, site, text, wanted):
    # The theme begins to listen to the field some time after the page is loaded, and no event says when. Text that is
    # typed before is not searched for.
    found = next(filter(None, (search(browser, site, text) for _ in range(SEARCH_TRIES))), [])
    if not any(wanted in link for link in found):
        yield f"search for {text}: no {wanted} in {found[:10]}"


def look(site, pictures, few):
    """The exit status. `few`: the first pages alone."""
    pictures.mkdir(parents=True, exist_ok=True)
    axe, complaints, taken = axe_source(site), [], 0
    with Browser() as browser:
        for page in PAGES[:FEW] if few else PAGES:
            if not (site / page).exists():
                complaints.append(f"{page}: the site has no such page")
                continue
            for size, (width, height) in SIZES.items():
                for dark in (False, True):
                    name = f"{page.removesuffix('.html').replace('/', '-')}-{size}-{'dark' if dark else 'light'}"
                    browser.open((site / page).as_uri(), width, height, dark)
                    browser.picture(pictures / f"{name}.png")
                    taken += 1
                    wider = browser.run("document.documentElement.scrollWidth - innerWidth")
                    if wider > 0:
                        complaints.append(f"{name}: is {wider} pixels wider than the window")
                    browser.run(axe + ";0")
                    complaints += [f"{name}: {violation}" for violation in browser.run(AXE)]
                    complaints += failures_of_loading(browser, name)
            browser.open((site / page).as_uri(), *SIZES["wide"], dark=False)
            complaints += check_keyboard(browser, page)
        for text, wanted in SEARCHES:
            complaints += check_search(browser, site, text, wanted)
    print(*complaints, sep="\n", end="\n" if complaints else "")
    print(f"{taken} pictures in {pictures}, {len(complaints)} complaints")
    return 1 if complaints else 0

