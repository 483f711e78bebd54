// Has xterm.js take what a test writes, and says what it shows. Each line of the input is a request
// {"widths": [[first, width]...], "new": true, "size": [rows, cols], "write": "base64"}: the widths of characters, a
// new terminal, or another size, and bytes for it. Each line of the output is what the terminal has then, as lines of
// text: see pictureOf. The argument is the directory of the packages.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const require = createRequire(process.argv[2] + '/');
const { Terminal } = require('@xterm/headless');

let term, core, title, answers, cut;

// widths are those that the test says, [first, width] from each first character on: xterm.js has those of an old
// Unicode, and the C library's are what programs go by.
const widths = {
  version: 'test',
  ranges: [],
  wcwidth(char) {
    let low = 0, high = this.ranges.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.ranges[middle][0] <= char) low = middle; else high = middle;
    }
    return this.ranges[low][1];
  },
  // charProperties packs the width, and whether it joins the character before, as xterm.js has them.
  charProperties(char, before) {
    const width = this.wcwidth(char), wide = before >> 1 & 3, joins = width === 0 && wide > 0;
    return (joins ? wide : width) << 1 | joins;
  },
};

function start(rows, cols) {
  term = new Terminal({ rows, cols, scrollback: 0, allowProposedApi: true, logLevel: 'off',
    windowOptions: { getWinSizeChars: true, pushTitle: true, popTitle: true } });
  term.unicode.register(widths);
  term.unicode.activeVersion = 'test';
  core = term._core;
  cut = Buffer.alloc(0);
  title = '';
  term.onTitleChange((to) => { title = to; });
  correct(core._inputHandler);
  answers = '';
  term.onData((said) => { answers += said; });
}

// below is the line below the cursor.
const below = (b) => (b.y + 1 < term.rows ? b.lines.get(b.ybase + b.y + 1) : undefined);

// correct has xterm.js do what the standard or most terminals do where it alone does something else.
function correct(handler) {
  const buffers = core._bufferService.buffers;
  const instead = (name, then) => {
    const first = handler[name].bind(handler);
    handler[name] = (...args) => then(first, ...args);
  };
  // Both screens have the same tab stops.
  Object.defineProperty(buffers.alt, 'tabs', { get: () => buffers.normal.tabs, set: (to) => { buffers.normal.tabs = to; } });
  // U+008D is a reverse index, as U+0084 is an index.
  handler._parser.setExecuteHandler('\x8d', () => handler.reverseIndex());
  // A mark joins the character before the cursor, also after a control; without one it is lost, and takes no cell.
  instead('print', (first, data, start, end) => {
    const b = buffers.active, line = b.lines.get(b.ybase + b.y);
    if (!b.x) while (start < end && widths.wcwidth(data[start]) === 0) start++;
    else if (!handler._parser.precedingJoinState) {
      handler._parser.precedingJoinState = line.getWidth(b.x - 1 - (line.getWidth(b.x - 1) === 0)) << 1;
    }
    if (start < end) first(data, start, end);
  });
  // A line feed has nothing to do with whether the next line goes on from this one.
  instead('lineFeed', (first) => {
    const b = buffers.active, next = below(b), was = next?.isWrapped;
    first();
    if (next && b.lines.get(b.ybase + b.y) === next) next.isWrapped = was;
    return true;
  });
  // What has been erased or moved up to the end of a line doesn't go on in the next line.
  for (const name of ['eraseInLine', 'eraseInDisplay', 'insertChars', 'deleteChars', 'eraseChars']) {
    instead(name, (first, params, ...more) => {
      const b = buffers.active, next = below(b), n = params.params[0];
      const toEnd = { eraseInLine: n !== 1 && n < 3 && (n || b.x < term.cols), eraseInDisplay: false, eraseChars: b.x + (n || 1) >= term.cols }[name] ?? true;
      first(params, ...more);
      if (next && toEnd) next.isWrapped = false;
      return true;
    });
  }
  // What is scrolled doesn't go on from the line above the region, nor in the one below it.
  const edges = (then) => (first, ...args) => {
    const b = buffers.active;
    first(...args);
    for (const y of [then === 'cursor' ? b.y : b.scrollTop, b.scrollBottom + 1]) {
      if (y < term.rows) b.lines.get(b.ybase + y).isWrapped = false;
    }
    return true;
  };
  for (const name of ['scrollUp', 'scrollDown']) instead(name, edges());
  for (const name of ['insertLines', 'deleteLines']) {
    instead(name, (first, ...args) => {
      const { y, scrollTop, scrollBottom } = buffers.active;
      return y < scrollTop || y > scrollBottom ? first(...args) : edges('cursor')(first, ...args);
    });
  }
  instead('reverseIndex', (first) => (buffers.active.y === buffers.active.scrollTop ? edges()(first) : first()));
  const service = core._bufferService, scroll = service.scroll.bind(service);
  service.scroll = (...args) => edges()(scroll, ...args);
  // A cursor is saved with the whole pen, the character sets and the origin mode.
  const saved = new Map(), sets = core._charsetService, modes = core.coreService.decPrivateModes;
  instead('saveCursor', (first, ...args) => {
    first(...args);
    const pen = handler._curAttrData.extended.clone();
    saved.set(buffers.active, { pen, charsets: [...sets._charsets], level: sets.glevel, origin: modes.origin });
    return true;
  });
  const forget = () => saved.delete(buffers.active);
  instead('restoreCursor', (first, ...args) => {
    const was = saved.get(buffers.active) ?? { charsets: [], level: 0, origin: false };
    handler._curAttrData.extended = was.pen?.clone() ?? new handler._curAttrData.extended.constructor();
    sets._charsets = [...was.charsets];
    modes.origin = was.origin;
    first(...args);
    sets.setgLevel(was.level);
    return true;
  });
  instead('softReset', (first, ...args) => { forget(); return first(...args); });
  instead('fullReset', (first, ...args) => { saved.clear(); return first(...args); });
  // Without anything saved in the alternate screen since it came, the cursor is restored to the first cell.
  buffers.onBufferActivate(({ activeBuffer: b }) => {
    if (b !== buffers.alt) return;
    [b.savedX, b.savedY] = [0, 0];
    b.savedCurAttrData.fg = b.savedCurAttrData.bg = 0;
    forget();
  });
}

const MODE = { 0: () => '', 1: (n) => 'i' + n, 2: (n) => 'i' + n, 3: (n) => '#' + n.toString(16).padStart(6, '0') };
const color = (mode, n) => MODE[mode >>> 24](n);

// look is how a cell looks.
function look(cell) {
  let s = '';
  if (cell.isBold()) s += 'b';
  if (cell.isDim()) s += 'f';
  if (cell.isItalic()) s += 'i';
  if (cell.isBlink()) s += 'k';
  if (cell.isInverse()) s += 'r';
  if (cell.isInvisible()) s += 'h';
  if (cell.isStrikethrough()) s += 's';
  if (cell.isOverline()) s += 'o';
  if (cell.isUnderline()) s += 'u' + cell.getUnderlineStyle();
  s += '/' + color(cell.getFgColorMode(), cell.getFgColor()) + '/' + color(cell.getBgColorMode(), cell.getBgColor()) + '/';
  if (cell.hasExtendedAttrs() && ~cell.extended.underlineColor) s += color(cell.getUnderlineColorMode(), cell.getUnderlineColor());
  const link = cell.extended.urlId && core._oscLinkService.getLinkData(cell.extended.urlId);
  return link ? s + '/' + link.uri : s;
}

// charsetOf is the character set in use; the test knows no others.
function charsetOf({ charset }) {
  return charset?.q ? '0' : charset?.['#'] ? 'A' : 'B';
}

function rowsOf(buffer) {
  const rows = [], cell = term.buffer.active.getNullCell();
  for (let y = 0; y < term.rows; y++) {
    const line = buffer.lines.get(buffer.ybase + y);
    let row = '', now = '///', blanks = '', is, last = {};
    for (let x = 0; x < term.cols; x++) {
      line.loadCell(x, cell);
      const width = cell.getWidth();
      let text = cell.getChars();
      if (width && (!text || !widths.wcwidth(text.codePointAt(0)))) text = ' ' + text;
      if (!width && x > 0) continue;
      if (cell.fg !== last.fg || cell.bg !== last.bg || cell.extended !== last.extended) {
        is = look(cell);
        last = { fg: cell.fg, bg: cell.bg, extended: cell.extended };
      }
      if (text === ' ' && is === '///' && now === '///') { blanks += ' '; continue; }
      row += blanks;
      blanks = '';
      if (is !== now) row += '{' + is + '}';
      now = is;
      row += text + (width === 2 ? '\u203a' : width ? '' : '\u2039');
    }
    const next = y + 1 < term.rows && buffer.lines.get(buffer.ybase + y + 1);
    rows.push(row + (next && next.isWrapped ? '\u21b5' : ''));
  }
  return rows;
}

function pictureOf() {
  const { normal, alt, active } = core._bufferService.buffers;
  const m = core.coreService.modes, d = core.coreService.decPrivateModes, mouse = core.coreMouseService;
  const on = (flag) => (flag ? 1 : 0);
  return [
    ...rowsOf(normal).map((row, y) => `main ${y}: ${row}`),
    ...(active === alt ? rowsOf(alt).map((row, y) => `alt ${y}: ${row}`) : []),
    `cursor ${active.y} ${Math.min(active.x, term.cols - 1)} wrap ${on(active.x >= term.cols)} ${look(core._inputHandler._curAttrData)} ${charsetOf(core._charsetService)}`,
    `saved ${active.savedY} ${Math.min(active.savedX, term.cols - 1)} ${look(active.savedCurAttrData)}`,
    `region ${active.scrollTop} ${active.scrollBottom}`,
    `tabs ${[...Array(term.cols).keys()].filter((x) => x && active.tabs[x]).join(' ')}`,
    `modes visible ${on(!core.coreService.isCursorHidden)} insert ${on(m.insertMode)} newline ${on(term.options.convertEol)}`
      + ` autowrap ${on(d.wraparound)} origin ${on(d.origin)} keys ${on(d.applicationCursorKeys)} keypad ${on(d.applicationKeypad)}`
      + ` paste ${on(d.bracketedPasteMode)} backwrap ${on(d.reverseWraparound)} mouse ${mouse.activeProtocol} ${mouse.activeEncoding}`,
    `title ${title}`,
    answers,
  ];
}

// resize wraps nothing again, and forgets what is cut off, as xterm does.
function resize(rows, cols) {
  const { normal, alt } = core._bufferService.buffers, same = cols === term.cols;
  Object.defineProperty(normal, '_isReflowEnabled', { value: false, configurable: true });
  const tabs = normal.tabs, were = term.cols;
  term.resize(cols, rows);
  normal.tabs = tabs; // it makes one at the edge
  for (let x = were; x < cols; x++) normal.tabs[x] = x % 8 === 0;
  for (const x of Object.keys(tabs)) if (x >= cols) delete tabs[x];
  for (const b of [normal, alt]) {
    for (let y = 0; y < b.lines.length; y++) {
      const line = b.lines.get(y);
      line.resize(cols, b.getNullCell());
      if (line.getWidth(cols - 1) === 2) line.setCell(cols - 1, b.getNullCell());
      line.isWrapped &&= same;
    }
  }
}

// write keeps a character whole: xterm.js loses one that is cut behind a byte 0x80 (its decoder stops there).
function write(bytes) {
  bytes = Buffer.concat([cut, bytes]);
  let end = bytes.length;
  for (let n = 1; n <= Math.min(3, bytes.length); n++) {
    const byte = bytes[bytes.length - n];
    if (byte >= 0xc0 && n < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2)) end = bytes.length - n;
    if (byte < 0x80 || byte >= 0xc0) break;
  }
  cut = bytes.subarray(end);
  core.writeSync(bytes.subarray(0, end));
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.widths) widths.ranges = request.widths;
  if (request.new) start(...request.size);
  else if (request.size) resize(...request.size);
  answers = '';
  if (request.write) write(Buffer.from(request.write, 'base64'));
  process.stdout.write(JSON.stringify(pictureOf()) + '\n');
}
