"use strict";

// compileGlob returns a function that reports whether a pattern matches a whole name, as
// --filter does. Its time is linear in the name. It throws what --filter refuses.
function compileGlob(pattern) {
  if (/\p{Surrogate}/u.test(pattern)) throw new Error("the pattern is not UTF-8");
  const chars = Array.from(pattern);
  const steps = []; // {take} matches a character, {stay} any number, {fork} goes on elsewhere
  const open = []; // braces: where each alternative begins, and which jump to the end
  let at = 0;

  function member(first) {
    if (at === chars.length) throw new Error("[ without ]");
    const c = chars[at++];
    if (c !== "\\") return {c, end: c === "]" && !first};
    if (at === chars.length) throw new Error("[ without ]");
    return {c: chars[at++], end: false};
  }

  function set() {
    const ranges = [];
    const negated = chars[at] === "!" || chars[at] === "^";
    if (negated) at++;
    for (let first = true; ; first = false) {
      const low = member(first);
      if (low.end) break;
      let high = low;
      if (at + 1 < chars.length && chars[at] === "-" && chars[at + 1] !== "]") {
        at++;
        high = member(true);
        if (high.c.codePointAt(0) < low.c.codePointAt(0)) throw new Error(`[${low.c}-${high.c}] is the wrong way round`);
      }
      ranges.push([low.c.codePointAt(0), high.c.codePointAt(0)]);
    }
    return c => ranges.some(([low, high]) => low <= c.codePointAt(0) && c.codePointAt(0) <= high) !== negated;
  }

  while (at < chars.length) {
    const c = chars[at++];
    const brace = open[open.length - 1];
    if (c === "*") {
      steps.push({stay: true});
    } else if (c === "?") {
      steps.push({take: () => true});
    } else if (c === "[") {
      steps.push({take: set()});
    } else if (c === "{") {
      open.push({fork: [steps.length + 1], ends: []});
      steps.push({fork: open[open.length - 1].fork});
    } else if (c === "," && brace) {
      brace.ends.push(steps.length);
      steps.push({fork: []});
      brace.fork.push(steps.length);
    } else if (c === "}" && brace) {
      for (const end of brace.ends) steps[end].fork.push(steps.length);
      open.pop();
    } else {
      if (c === "\\" && at === chars.length) throw new Error("nothing after the last \\");
      const want = c === "\\" ? chars[at++] : c;
      steps.push({take: c => c === want});
    }
  }
  if (open.length > 0) throw new Error("{ without }");

  // reach adds a step to a set, and all that take no character to reach from it.
  function reach(set, step) {
    const todo = [step];
    while (todo.length > 0) {
      const i = todo.pop();
      if (set.has(i)) continue;
      set.add(i);
      if (i < steps.length && steps[i].stay) todo.push(i + 1);
      if (i < steps.length && steps[i].fork) todo.push(...steps[i].fork);
    }
  }

  return name => {
    let now = new Set();
    reach(now, 0);
    for (const c of name) {
      const then = new Set();
      for (const i of now) {
        if (i === steps.length) continue;
        if (steps[i].stay) reach(then, i);
        else if (steps[i].take && steps[i].take(c)) reach(then, i + 1);
      }
      if (then.size === 0) return false;
      now = then;
    }
    return now.has(steps.length);
  };
}
