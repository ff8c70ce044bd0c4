// Contrast of every visible text with its background, as WCAG 2 computes it.
(() => {
    const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const color = text => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = text;
        context.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
        return { parts: [red, green, blue], alpha: alpha / 255 };
    };
    const over = (top, below) =>
        top.parts.map((part, index) => part * top.alpha + below[index] * (1 - top.alpha));
    const background = element => {
        const layers = [];
        for (let at = element; at; at = at.parentElement) {
            layers.push(color(getComputedStyle(at).backgroundColor));
            if (layers.at(-1).alpha === 1) break;
        }
        return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const luminance = parts => {
        const [red, green, blue] = parts.map(part => {
            const value = part / 255;
            return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const low = new Set();
    let checked = 0;
    for (const element of document.querySelectorAll("main *, nav *, #mdbook-menu-bar *")) {
        const text = [...element.childNodes]
            .filter(node => node.nodeType === Node.TEXT_NODE)
            .map(node => node.textContent.trim())
            .join(" ")
            .trim();
        const isShown = element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
        if (!text || !isShown || element.closest("svg, script, style")) continue;
        const style = getComputedStyle(element);
        const behind = background(element);
        const [first, second] = [over(color(style.color), behind), behind].map(luminance);
        const ratio = (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        checked += 1;
        if (ratio < (isLarge ? 3 : 4.5)) {
            const name = element.tagName.toLowerCase() + (element.className ? "." + element.className : "");
            low.add(`${name} ${ratio.toFixed(2)} ${style.color}: ${text.slice(0, 30)}`);
        }
    }
    return { checked, low: [...low].slice(0, 20), background: luminance(background(document.querySelector("main"))) };
})()
