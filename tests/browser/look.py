"""What a page looks like to those who look: texts that are too pale, elements that reach beyond the window."""

WIDTHS = {"phone": 390, "tablet": 820, "desk": 1400}
# Texts whose colour stands out from what is behind them by less than 4.5, as WCAG counts.
PALE = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => rgba(colour).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((all, part, nth) => all + part * [0.2126, 0.7152, 0.0722][nth], 0);
  const drawn = (element) => element.namespaceURI.endsWith("svg") && element.tagName !== "svg";
  const inked = (element) => getComputedStyle(element)[drawn(element) ? "fill" : "color"];
  const under = (element) => {
    const at = element.getBBox();
    const [x, y] = [at.x + at.width / 2, at.y + at.height / 2];
    const shapes = [...element.parentElement.children].slice(0, [...element.parentElement.children].indexOf(element));
    return shapes.reverse().find((each) => ["rect", "circle"].includes(each.tagName) &&
      rgba(getComputedStyle(each).fill)[3] === 255 && getComputedStyle(each).fill !== "none" && covers(each, x, y));
  };
  const covers = (each, x, y) => {
    const at = each.getBBox();
    return at.x <= x && x <= at.x + at.width && at.y <= y && y <= at.y + at.height;
  };
  const behind = (element) => {
    if (drawn(element)) {
      const shape = element.tagName === "text" && under(element);
      return shape ? getComputedStyle(shape).fill : behind(element.closest("svg"));
    }
    const colour = getComputedStyle(element).backgroundColor;
    return rgba(colour)[3] === 255 ? colour : behind(element.parentElement);
  };
  return [...document.body.querySelectorAll("*")]
    .filter((each) => !["SCRIPT", "NOSCRIPT", "title"].includes(each.tagName) && each.checkVisibility())
    .filter((each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
    .filter((each) => {
      const [low, high] = [light(inked(each)), light(behind(each))].sort((a, b) => a - b);
      return (high + 0.05) / (low + 0.05) < 4.5;
    }).map((each) => each.outerHTML);
}"""
# Texts of drawings that are cut off at the edge of their drawing.
CUT = """() => [...document.querySelectorAll("svg text")].filter((each) => {
  const [a, b] = [each.getBoundingClientRect(), each.closest("svg").getBoundingClientRect()];
  return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
}).map((each) => each.outerHTML)"""
# Pairs of texts of one drawing, or of a text and a mark of the legend, that lie over each other.
CROWDED = """() => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const all = [...svg.querySelectorAll("text, g:has(+ text)")].map((each) => [each, each.getBoundingClientRect()]);
  return all.flatMap(([one, a], nth) => all.slice(nth + 1)
    .filter(([other]) => !one.contains(other) && !other.contains(one))
    .filter(([other]) => one.tagName === "text" || other.tagName === "text")
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
                       Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5)
    .map(([other]) => [one.outerHTML, other.outerHTML]));
})"""
# Numbers, ranges and coordinates of chips that are broken over two lines of their cell.
BROKEN = """() => [...document.querySelectorAll("td, .parts .number")]
  .filter((each) => /^[(\\d][\\d.,–()x%* ]*([a-zA-Z]{1,3})?$/.test(each.textContent) && each.checkVisibility())
  .filter((each) => {
    const text = document.createRange();
    text.selectNodeContents(each);
    return text.getBoundingClientRect().height > 1.9 * parseFloat(getComputedStyle(each).fontSize);
  }).map((each) => each.outerHTML)"""
# Elements that reach beyond the window's right edge, but for what scrolls by itself.
WIDE = """() => [...document.body.querySelectorAll("*")]
  .filter((each) => !each.parentElement.closest(".wide, pre"))
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 0.5).map((each) => each.outerHTML)"""
