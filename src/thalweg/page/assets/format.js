// Numbers as people read them, with their units. Nothing is shown where nothing is known.

export const NONE = "–";

function scaled(value, units, factor) {
  let n = 0;
  while (Math.abs(value) >= factor * 0.9995 && n < units.length - 1) {
    value /= factor;
    n += 1;
  }
  const digits = n === 0 ? (Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : 1) : Math.abs(value) >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[n]}`.trim();
}

export const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
export const count = (value) => (known(value) ? Math.round(value).toLocaleString("en") : NONE);
export const short = (value) => (known(value) ? scaled(value, ["", "k", "M", "G", "T"], 1000) : NONE);
export const bytes = (value) => (known(value) ? scaled(value, ["B", "kB", "MB", "GB", "TB"], 1000) : NONE);
export const rate = (value, of = "") => (known(value) ? `${short(value)}${of ? ` ${of}` : ""}/s` : NONE);
export const byteRate = (value) => (known(value) ? `${bytes(value)}/s` : NONE);
export const percent = (value) =>
  !known(value) ? NONE : value > 0 && value < 0.001 ? "< 0.1%" : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)}%`;
export const amount = (value) =>
  !known(value) ? NONE : value.toLocaleString("en", { maximumSignificantDigits: 5 });

export function span(seconds) {
  if (!known(seconds)) return NONE;
  const size = Math.abs(seconds);
  for (const [most, unit, per] of [[0.9995, "ms", 0.001], [120, "s", 1], [7200, "min", 60], [172800, "h", 3600], [63e6, "days", 86400]]) {
    if (size < most) return `${(seconds / per).toFixed(unit === "ms" || size / per >= 100 ? 0 : 1)} ${unit}`;
  }
  return `${(seconds / 31557600).toFixed(1)} years`;
}

export const clock = (seconds) =>
  known(seconds) ? new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour12: false }) : NONE;

export function moment(seconds) {
  if (!known(seconds)) return NONE;
  const date = new Date(seconds * 1000);
  return `${date.toISOString().slice(0, 10)} ${date.toISOString().slice(11, 19)} UTC`;
}
