// A browser that does what the lines on its standard input say, each a JSON object, and answers each with a line:
// {"value": …} or {"error": "…"}. It waits for what is to be seen for as long as PATIENCE says, in milliseconds.

import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const patience = Number(process.env.PATIENCE);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const pages = new Map();

const orders = {
  // open opens a page in a profile of its own, and notes what goes wrong in it.
  async open({ page, url, width, height, scheme }) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce", locale: "en-GB" });
    context.setDefaultTimeout(patience);
    const tab = await context.newPage();
    tab.wrong = [];
    tab.loads = 0;
    tab.on("console", (m) => m.type() === "error" && tab.wrong.push(m.text()));
    tab.on("pageerror", (e) => tab.wrong.push(String(e)));
    tab.on("request", (r) => new URL(r.url()).origin !== new URL(url).origin && tab.wrong.push(`asks for ${r.url()}`));
    tab.on("load", () => tab.loads++);
    pages.set(page, tab);
    await tab.goto(url);
  },
  // text waits until an element has a text in it, and returns all of its text.
  async text({ tab, selector, has }) {
    await tab.locator(selector).first().filter({ hasText: has ?? "" }).waitFor();
    return tab.locator(selector).first().innerText();
  },
  async gone({ tab, selector }) { await tab.locator(selector).first().waitFor({ state: "hidden" }); },
  async count({ tab, selector }) { return tab.locator(selector).count(); },
  async click({ tab, selector }) { await tab.locator(selector).first().click(); },
  async fill({ tab, selector, text }) { await tab.locator(selector).first().fill(text); },
  async press({ tab, key }) { await tab.keyboard.press(key); },
  // evaluate returns the value of an expression in the page.
  async evaluate({ tab, expression }) { return tab.evaluate(expression); },
  // until waits until an expression in the page is true.
  async until({ tab, expression }) {
    for (const end = Date.now() + patience; !(await tab.evaluate(expression)); await tab.waitForTimeout(50)) {
      if (Date.now() > end) throw new Error(`never true: ${expression}`);
    }
  },
  async wrong({ tab }) { return tab.wrong; },
  async loads({ tab }) { return tab.loads; },
  // axe returns what is not accessible, in the words of axe-core.
  async axe({ tab }) {
    await tab.evaluate(axe);
    const { violations } = await tab.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return violations.map((v) => ({ id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map((n) => `${n.target.join(" ")}: ${n.failureSummary}`) }));
  },
  async screenshot({ tab, path, full }) { await tab.screenshot({ path, fullPage: full, animations: "disabled" }); },
  async close({ tab, page }) {
    pages.delete(page);
    await tab.context().close();
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await orders[order.do]({ ...order, tab: pages.get(order.page) })) ?? null };
  } catch (e) {
    answer = { error: e.message };
  }
  console.log(JSON.stringify(answer));
}
await browser.close();
