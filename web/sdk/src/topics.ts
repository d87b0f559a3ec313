// Names of topics and patterns (protocol, 6.2).
import { utf8 } from "./bytes.js";

/** Whether the filter matches the name; both must be valid. */
export function matches(filter: string, name: string): boolean {
  const wanted = filter.split(":");
  const segments = name.split(":");
  for (let i = 0; i < wanted.length; i++) {
    if (wanted[i] === "**") return segments.length > i;
    if (i === segments.length) return false;
    if (wanted[i] !== "*" && wanted[i] !== segments[i]) return false;
  }
  return segments.length === wanted.length;
}

/** Whether text is a name or a pattern. */
export function isFilter(text: string): boolean {
  const size = utf8(text).length;
  if (size < 1 || size > 255 || /[\u0000-\u001f\u007f-\u009f]|\p{Surrogate}/u.test(text)) return false;
  const segments = text.split(":");
  return segments.every((s, i) => s === "*" || (s === "**" && i === segments.length - 1) || !s.includes("*"));
}
