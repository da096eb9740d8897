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
# Elements that reach beyond the window's right edge, but for what scrolls by itself.
WIDE = """() => [...document.body.querySelectorAll("*")]
  .filter((each) => !each.parentElement.closest(".wide, pre"))
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 0.5).map((each) => each.outerHTML)"""
