// Has xterm.js take what a test writes, and says what it shows. Each line of the input is a request
// {"widths": [[first, width]...], "new": true, "size": [rows, cols], "write": "base64", "quiet": true}: the widths of
// characters, a new terminal, or another size, and bytes for it. Each line of the output is what the terminal has then,
// as lines of text (see pictureOf); only what it answered with "quiet". The argument is the directory of the packages.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const require = createRequire(process.argv[2] + '/');
const { Terminal } = require('@xterm/headless');

let term, core, title, answers, cut;
const links = new Map(); // uris of all links: xterm.js forgets one with the lines where it was used

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

// stay has the cursor be in the last column, and not wait behind it.
const stay = (b) => { b.x = Math.min(b.x, term.cols - 1); };

// correctBuffers has both screens have the same tab stops and scroll region, and no text wrapped again.
function correctBuffers({ normal, alt }) {
  Object.defineProperty(normal, '_isReflowEnabled', { value: false });
  for (const name of ['tabs', 'scrollTop', 'scrollBottom']) {
    Object.defineProperty(alt, name, { get: () => normal[name], set: (to) => { normal[name] = to; } });
  }
  const clear = alt.clear.bind(alt);
  alt.setupTabStops = () => {};
  alt.clear = () => {
    const { scrollTop, scrollBottom } = normal;
    clear();
    Object.assign(normal, { scrollTop, scrollBottom });
  };
}

// correct has xterm.js do what the standard or most terminals do where it alone does something else.
function correct(handler) {
  const buffers = core._bufferService.buffers;
  const instead = (name, then) => {
    const first = handler[name].bind(handler);
    handler[name] = (...args) => then(first, ...args);
  };
  // The uri of a link stays known, see links.
  const register = core._oscLinkService.registerLink.bind(core._oscLinkService);
  core._oscLinkService.registerLink = (link) => {
    const id = register(link);
    links.set(id, link.uri);
    return id;
  };
  correctBuffers(buffers);
  // A reset shows the cursor and ends LNM, as that of xterm.js in a browser does.
  instead('fullReset', (first) => {
    first();
    correctBuffers(buffers);
    saved.clear();
    core.coreService.isCursorHidden = false;
    term.options.convertEol = false;
    return true;
  });
  // DECALN fills with letters that have no colours, and ends the region and the origin mode.
  instead('screenAlignmentPattern', (first) => {
    const pen = handler._curAttrData, b = buffers.active;
    handler._curAttrData = new pen.constructor();
    [b.scrollTop, b.scrollBottom, core.coreService.decPrivateModes.origin] = [0, term.rows - 1, false];
    first();
    handler._curAttrData = pen;
    return true;
  });
  // Without DECAWM the cursor doesn't wait behind the last column, nor after it has been switched. A tab stop is set
  // in the last column, not behind it, and so it is when it is asked where the cursor is.
  // In origin mode it is asked where in the region.
  for (const name of ['setModePrivate', 'resetModePrivate']) {
    instead(name, (first, params) => {
      if (params.params.slice(0, params.length).includes(7)) stay(buffers.active);
      return first(params);
    });
  }
  // A character may be repeated after a sequence that moves and draws nothing, too.
  const { _parser: parser } = handler;
  let before = parser.precedingJoinState, keep = false;
  Object.defineProperty(parser, 'precedingJoinState', {
    get: () => before,
    set: (to) => {
      if (to || !keep) before = to;
      keep &&= to !== 0;
    },
  });
  for (const name of ['charAttributes', 'deviceStatus', 'deviceStatusPrivate', 'sendDeviceAttributesPrimary', 'sendDeviceAttributesSecondary', 'repeatPrecedingCharacter']) {
    instead(name, (first, params) => {
      first(params);
      keep = true;
      return true;
    });
  }
  // In origin mode a relative move adds no margin again.
  const moveTo = (x, y) => {
    [buffers.active.x, buffers.active.y] = [x, y];
    handler._restrictCursor();
    return true;
  };
  handler._moveCursor = (x, y) => {
    handler._restrictCursor();
    return moveTo(buffers.active.x + x, buffers.active.y + y);
  };
  for (const name of ['cursorCharAbsolute', 'charPosAbsolute']) {
    instead(name, (_, params) => moveTo((params.params[0] || 1) - 1, buffers.active.y));
  }
  instead('cursorBackwardTab', (first, params) => {
    stay(buffers.active);
    return first(params);
  });
  for (const name of ['tabSet', 'tabClear', 'deviceStatus', 'deviceStatusPrivate']) {
    instead(name, (first, params) => {
      const b = buffers.active, { x, y } = b;
      stay(b);
      if (modes().origin) b.y -= b.scrollTop;
      first(params);
      [b.x, b.y] = [x, y];
      return true;
    });
  }
  // U+008D is a reverse index, as U+0084 is an index.
  handler._parser.setExecuteHandler('\x8d', () => handler.reverseIndex());
  let printing = false, lastEnd = 0; // behind what was printed
  instead('repeatPrecedingCharacter', (first, params) => {
    if (parser.precedingJoinState && !modes().wraparound) buffers.active.x = lastEnd;
    first(params);
    if (!modes().wraparound) stay(buffers.active);
    return true;
  });
  // A mark joins the character before the cursor, also after a control; without one it is lost, and takes no cell.
  instead('print', (first, data, start, end) => {
    const b = buffers.active, line = b.lines.get(b.ybase + b.y);
    const from = start;
    let printed = parser.precedingJoinState !== 0;
    const last = b.lines.get(b.ybase + term.rows - 1), was = last.isWrapped;
    printing = true;
    while (b.x && line.getWidth(b.x - 1) === 2 && start < end && !widths.wcwidth(data[start])) line.addCodepointToCell(b.x - 1, data[start++], 2);
    if (!b.x) while (start < end && widths.wcwidth(data[start]) === 0) start++;
    else if (!handler._parser.precedingJoinState) {
      handler._parser.precedingJoinState = line.getWidth(b.x - 1 - (line.getWidth(b.x - 1) === 0)) << 1;
    }
    if (modes().wraparound) {
      if (start < end) first(data, start, end);
      lastEnd = b.x;
    } else {
      // The cursor stays in the last column, where a mark joins the character that is in it, and a wide character
      // without room does nothing.
      for (; start < end; start++) {
        const width = widths.wcwidth(data[start]);
        if (!width && printed) b.x = lastEnd;
        printed ||= width > 0;
        if (width > 1 && b.x + 1 >= term.cols) continue;
        first(data, start, start + 1);
        lastEnd = b.x;
        stay(b);
      }
    }
    printing = false;
    // Below the region, a last line that is full begins again, and no line goes on in it.
    if (line === last && b.scrollBottom < term.rows - 1) last.isWrapped = was;
    if (!printed && !data.subarray(from, end).some((char) => widths.wcwidth(char))) parser.precedingJoinState = 0;
    // What is inserted moves the end of a line out of it, so that the text doesn't go on in the next.
    const next = below(b);
    if (next && core.coreService.modes.insertMode && data.subarray(from, end).some((char) => widths.wcwidth(char))) next.isWrapped = false;
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
  const edges = (then, from = (b) => b.scrollTop, down = 0) => (...args) => {
    const b = buffers.active;
    then(...args);
    for (const y of [from(b), from(b) + down, b.scrollBottom + 1]) {
      if (y < term.rows && y <= b.scrollBottom + 1) b.lines.get(b.ybase + y).isWrapped = false;
    }
    return true;
  };
  const inRegion = ({ y, scrollTop, scrollBottom }) => y >= scrollTop && y <= scrollBottom;
  for (const name of ['insertLines', 'deleteLines']) {
    instead(name, (first, params) => !inRegion(buffers.active)
      || edges(first, (b) => b.y, name === 'insertLines' ? params.params[0] || 1 : 0)(params));
  }
  instead('scrollUp', (first, params) => edges(first)(params));
  // Lines that come at the top have the background that is set, as those at the bottom do.
  instead('scrollDown', (first, params) => edges(() => {
    const b = buffers.active;
    for (let n = Math.min(params.params[0] || 1, term.rows); n > 0; n--) {
      b.lines.splice(b.ybase + b.scrollBottom, 1);
      b.lines.splice(b.ybase + b.scrollTop, 0, b.getBlankLine(handler._eraseAttrData()));
    }
  }, undefined, params.params[0] || 1)());
  instead('reverseIndex', (first) => (buffers.active.y === buffers.active.scrollTop ? edges(first, undefined, 1)() : first()));
  const service = core._bufferService, scroll = service.scroll.bind(service);
  service.scroll = edges(scroll);
  // A cursor is saved with the whole pen, the character sets and the origin mode.
  const saved = new Map(), sets = core._charsetService, modes = () => core.coreService.decPrivateModes;
  instead('saveCursor', (first, ...args) => {
    first(...args);
    const pen = handler._curAttrData.extended.clone();
    buffers.active.savedCurAttrData.extended = pen;
    buffers.active.savedX = Math.min(buffers.active.savedX, term.cols - 1);
    saved.set(buffers.active, { pen, charsets: [...sets._charsets], level: sets.glevel, origin: modes().origin });
    return true;
  });
  const forget = () => saved.delete(buffers.active);
  instead('restoreCursor', (first, ...args) => {
    const was = saved.get(buffers.active) ?? { charsets: [], level: 0, origin: false };
    handler._curAttrData.extended = was.pen?.clone() ?? new handler._curAttrData.extended.constructor();
    sets._charsets = [...was.charsets];
    modes().origin = was.origin;
    first(...args);
    sets.setgLevel(was.level);
    return true;
  });
  // A soft reset forgets what was saved, and the cursor doesn't wait behind the last column after it.
  instead('softReset', (first, params) => {
    forget();
    stay(buffers.active);
    return first(params);
  });
  // What remains of a wide character that is cut stays as it looked.
  const lines = Object.getPrototypeOf(buffers.normal.lines.get(0)), cell = term.buffer.active.getNullCell();
  lines.firstSet ??= lines.setCellFromCodepoint;
  lines.setCellFromCodepoint = function (x, code, width, look) {
    const b = buffers.active, filled = printing && this !== b.lines.get(b.ybase + b.y); // no room for a wide character
    if (code === 0 && width === 1 && this.getWidth(x) !== 1 && !filled) look = this.loadCell(x, cell);
    lines.firstSet.call(this, x, code, width, look);
  };
  // Without anything saved in the alternate screen since it came, the cursor is restored to the first cell.
  buffers.onBufferActivate(({ activeBuffer: b }) => {
    stay(b);
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
  const extended = cell.hasExtendedAttrs() ? cell.extended : undefined;
  let s = '';
  if (cell.isBold()) s += 'b';
  if (cell.isDim()) s += 'f';
  if (cell.isItalic()) s += 'i';
  if (cell.isBlink()) s += 'k';
  if (cell.isInverse()) s += 'r';
  if (cell.isInvisible()) s += 'h';
  if (cell.isStrikethrough()) s += 's';
  if (cell.isOverline()) s += 'o';
  if (cell.fg & 0x10000000) s += 'u' + (extended?._ext >>> 26 & 7 || 1); // without what xterm.js gives a link
  s += '/' + color(cell.getFgColorMode(), cell.getFgColor()) + '/' + color(cell.getBgColorMode(), cell.getBgColor()) + '/';
  if (extended && (extended.underlineColor & 0x3ffffff) !== 0x3ffffff) s += color(cell.getUnderlineColorMode(), cell.getUnderlineColor());
  return extended?.urlId ? s + '/' + links.get(extended.urlId) : s;
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
    `saved ${Math.max(active.savedY - active.ybase, 0)} ${Math.min(active.savedX, term.cols - 1)} ${look(active.savedCurAttrData)}`,
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
  if (rows === term.rows && cols === term.cols) return;
  const { normal, alt } = core._bufferService.buffers, same = cols === term.cols;
  const tabs = { ...normal.tabs }, were = term.cols, { active } = core._bufferService.buffers, { x } = active;
  term.resize(cols, rows);
  if (same) active.x = x;
  core._inputHandler._parser.precedingJoinState = 0;
  normal.tabs = tabs; // it makes one at the edge
  for (let x = were; x < cols; x++) normal.tabs[x] = x % 8 === 0;
  for (const x of Object.keys(tabs)) if (x >= cols) delete tabs[x];
  for (const b of [normal, alt]) {
    b.lines.maxLength = rows; // also of a screen that isn't shown
    b.savedY = Math.min(b.savedY, rows - 1);
    for (let y = 0; y < b.lines.length; y++) {
      const line = b.lines.get(y);
      line.resize(cols, b.getNullCell());
      if (line.getWidth(cols - 1) === 2) line.setCellFromCodepoint(cols - 1, 0, 1, b.getNullCell());
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
  process.stdout.write(JSON.stringify(request.quiet ? [answers] : pictureOf()) + '\n');
}
