package redact

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Range is where something is: from a position up to another, in bytes.
type Range struct{ From, To int64 }

// Matcher gives where in a text something is to be taken out, in any order.
type Matcher func(text []byte) []Range

// rule is one kind of secret. What its first group matches is the secret, or all that it matches if it has none. A text without
// any of its words is passed over.
type rule struct {
	name  string
	words []string // in small letters
	*regexp.Regexp
	lines bool // it may have many lines
}

// The rules. Those marked so are from gitleaks (https://github.com/gitleaks/gitleaks, config/gitleaks.toml, MIT licence),
// shortened: of what follows a prefix the length and the letters count, its entropy doesn't.
// They are made when they are needed first: most processes never do.
var rules = sync.OnceValue(func() []rule {
	return []rule{
		{"private key", []string{"private key"}, regexp.MustCompile(`-----BEGIN[ A-Z0-9_-]*PRIVATE KEY(?: BLOCK)?-----((?:[A-Za-z0-9+/=\s]|[A-Z][A-Za-z-]{1,20}: [^\n]+\n)*)`), true}, // gitleaks: private-key
		{"age key", []string{"age-secret-key-"}, regexp.MustCompile(`(?i)\bAGE-SECRET-KEY-(?:PQ-)?1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58,}`), false},                                  // gitleaks: age-secret-key
		{"aws key", []string{"akia", "asia", "abia", "acca", "a3t"}, regexp.MustCompile(`\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`), false},                                // gitleaks: aws-access-token
		{"google key", []string{"aiza"}, regexp.MustCompile(`\bAIza[\w-]{35}`), false},                                                                                                // gitleaks: gcp-api-key
		{"github token", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, regexp.MustCompile(`\b(?:gh[opusr]_[0-9A-Za-z]{36,}|github_pat_\w{82})`), false},            // gitleaks: github-*
		{"gitlab token", []string{"glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "gloas-", "glagent-"}, regexp.MustCompile(`\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|oas|agent)-[\w.=-]{20,}`), false},
		{"slack token", []string{"xox", "xapp-"}, regexp.MustCompile(`(?i)\b(?:xox[abeoprs](?:\.xox[bp])?-[0-9A-Za-z-]{10,}|xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+)`), false}, // gitleaks: slack-*
		{"slack webhook", []string{"hooks.slack.com"}, regexp.MustCompile(`hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{43,})`), false},            // gitleaks: slack-webhook-url
		{"npm token", []string{"npm_"}, regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}\b`), false},                                                                          // gitleaks: npm-access-token
		{"pypi token", []string{"pypi-"}, regexp.MustCompile(`\bpypi-AgEIcHlwaS5vcmc[\w-]{50,}`), false},                                                               // gitleaks: pypi-upload-token
		{"stripe key", []string{"sk_", "rk_"}, regexp.MustCompile(`\b(?:sk|rk)_(?:test|live|prod)_[A-Za-z0-9]{10,}\b`), false},                                         // gitleaks: stripe-access-token
		{"openai key", []string{"sk-"}, regexp.MustCompile(`\bsk-(?:(?:proj|svcacct|admin|ant-api\d\d|ant-admin\d\d|or-v1)-[\w-]{20,}|[A-Za-z0-9]{20,}\b)`), false},    // gitleaks: openai-api-key, anthropic-api-key
		{"digitalocean token", []string{"dop_v1_", "doo_v1_", "dor_v1_"}, regexp.MustCompile(`\bdo[opr]_v1_[a-f0-9]{64}\b`), false},                                    // gitleaks: digitalocean-*
		{"hashicorp token", []string{"hvs.", "hvb."}, regexp.MustCompile(`\bhv[sb]\.[\w-]{90,}`), false},                                                               // gitleaks: vault-*-token
		{"hugging face token", []string{"hf_"}, regexp.MustCompile(`\bhf_[A-Za-z]{34}\b`), false},                                                                      // gitleaks: huggingface-access-token
		{"sendgrid key", []string{"sg."}, regexp.MustCompile(`\bSG\.[\w-]{22}\.[\w-]{43}`), false},                                                                     // gitleaks: sendgrid-api-token
		{"jwt", []string{"eyj"}, regexp.MustCompile(`\bey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?`), false},                                       // gitleaks: jwt
		{"diapause token", []string{"diapause_"}, regexp.MustCompile(`\bdiapause_[A-Za-z0-9_-]{20,}`), false},
		{"authorization", []string{"bearer ", "basic "}, regexp.MustCompile(`(?i)\b(?:bearer|basic) +([A-Za-z0-9._~+/-]{12,}=*)`), false},
		{"authorization header", []string{"authorization", "x-api-key", "cookie", "-token"}, regexp.MustCompile(`(?im)\b(?:(?:proxy-)?authorization|x-api-key|(?:set-)?cookie|x-[a-z-]+-token|private-token) *: *(?:(?:bearer|basic|token|digest) +)?([^'"\n]{8,})`), false},
		{"password in a URL", []string{"://"}, regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]+://[^\s/?#:@'"]*:([^\s/@'"]+)@`), false},
		{"password of curl", []string{"curl ", "wget "}, regexp.MustCompile(`\b(?:curl|wget)\b[^\n|;&]*? (?:-u|--user|--password|--proxy-user)[ =]+['"]?[^\s'":]*:?([^\s'"]{3,})`), false},
	}
})

// secretName ends a name that says that what follows is a secret. Where programs print "PASS: ", it takes more than pass.
const (
	secretName = `(?:` + named + `|pass)`
	longName   = `(?:` + named + `|_pass)`
	named      = `pass(?:word|wd|phrase)|secret|token|api[_-]?key|access[_-]?key|auth[_-]?key|private[_-]?key|encryption[_-]?key|credentials?`
)

// assigned are values that follow such a name. They are apart since more is asked of them than a pattern says.
var assigned = sync.OnceValue(func() []rule {
	words := []string{"pass", "secret", "token", "key", "credential"}
	return []rule{
		{"variable", words, regexp.MustCompile(`(?i)` + secretName + `["']?[ \t]{0,4}(?:=|:=|=>)[ \t]{0,4}("[^"\n]{3,}"|'[^'\n]{3,}'|[^\s"'&;|<>]{3,})`), false},
		{"field", words, regexp.MustCompile(`(?i)` + longName + `["']?[ \t]{0,4}:[ \t]{0,4}("[^"\n]{3,}"|'[^'\n]{3,}'|[^\s"'&;|<>/,{}]{6,})`), false},
		{"option", words, regexp.MustCompile(`(?i)(?:^| )--?[A-Za-z0-9_.-]*` + secretName + `[ \t]+("[^"\n]{3,}"|'[^'\n]{3,}'|[^\s"'&;|<>-][^\s"'&;|<>]{2,})`), false},
		// What is shown after a prompt for a password: nothing is, as a rule.
		{"prompt", []string{"password", "passphrase", "passcode", "pin"}, regexp.MustCompile(`(?im)\b(?:password|passphrase|passcode|PIN)(?: (?:for|of|again)[^:\n]*| \([^)\n]*\))?: *(\S[^\n]*)$`), false},
	}
})

// plain are values that are no secrets: names of variables and of files, and words that stand for one.
var plain = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(?:\$.*|%.*%|<.*|\*+|\.{3,}|-+|x{3,}|null|none|nil|true|false|undefined|empty|yes|no|required|optional|string|str|redacted|\[redacted\]|changeme|os\.(?:environ|getenv).*|process\.env.*|/[A-Za-z0-9_./-]+|[A-Za-z_][A-Za-z0-9_.]*\(.*)$`)
})

// Secrets gives where a text has secrets. It is a Matcher.
func Secrets(text []byte) (all []Range) {
	low := lower(text)
	for _, r := range rules() {
		r.each(text, low, func(at Range) { all = append(all, at) })
	}
	for _, r := range assigned() {
		r.each(text, low, func(at Range) {
			value := text[at.From:at.To]
			if q := value[0]; len(value) > 2 && (q == '"' || q == '\'') {
				at = Range{at.From + 1, at.To - 1}
				value = text[at.From:at.To]
			}
			if !plain().Match(bytes.TrimSpace(value)) {
				all = append(all, at)
			}
		})
	}
	return all
}

// lower gives a text with small letters for those of ASCII.
func lower(text []byte) []byte {
	low := bytes.Clone(text)
	for i, c := range low {
		if 'A' <= c && c <= 'Z' {
			low[i] = c + 'a' - 'A'
		}
	}
	return low
}

// A rule is tried around its words alone: in their line, but so far before and behind at most, in bytes. A private key has many lines.
const (
	aroundBefore = 300
	aroundAfter  = 1200
	keyAfter     = 16 << 10
)

// each calls fn with each secret of the rule, maybe more than once.
func (r rule) each(text, low []byte, fn func(Range)) {
	for _, w := range r.around(low) {
		for _, at := range r.FindAllSubmatchIndex(text[w.from:w.to], -1) {
			is := groupOf(at)
			if is.From < is.To {
				fn(Range{is.From + int64(w.from), is.To + int64(w.from)})
			}
		}
	}
}

// window is a part of a text.
type window struct{ from, to int }

// around gives the parts of a text that have words of the rule, in order. Few bytes are in two of them.
func (r rule) around(low []byte) (all []window) {
	for _, word := range r.words {
		for at := 0; ; {
			n := bytes.Index(low[at:], []byte(word))
			if n < 0 {
				break
			}
			n += at
			w := r.line(low, n)
			if all, at = append(all, w), w.to; w.to == n+r.after() { // what it is cut in is in the next one
				at -= r.after() / 4
			}
			if at = max(at, n+len(word)); at >= len(low) {
				break
			}
		}
	}
	return joinWindows(all, 2*r.after())
}

// joinWindows makes one window of those that overlap, in their order: in a long line full of words a byte is tried about once
// then, and not with each of them. None grows that has so many bytes: an expression may look at all that is left of a window after
// each of its matches.
func joinWindows(all []window, enough int) (out []window) {
	slices.SortFunc(all, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	for _, w := range all {
		if n := len(out); n > 0 && w.from < out[n-1].to && (w.to <= out[n-1].to || out[n-1].to-out[n-1].from < enough) {
			out[n-1].to = max(out[n-1].to, w.to)
			continue
		}
		out = append(out, w)
	}
	return out
}

// line gives the part of a text around a position in which the rule is tried.
func (r rule) line(low []byte, at int) window {
	w := window{max(at-aroundBefore, 0), min(at+r.after(), len(low))}
	if n := bytes.LastIndexByte(low[w.from:at], '\n'); n >= 0 {
		w.from += n + 1
	}
	if n := bytes.IndexByte(low[at:w.to], '\n'); n >= 0 && !r.lines {
		w.to = at + n
	}
	return w
}

// after is how far behind its words the rule is tried.
func (r rule) after() int {
	if r.lines {
		return keyAfter
	}
	return aroundAfter
}

// groupOf gives the first group of a match, or all of it.
func groupOf(at []int) Range {
	if len(at) > 2 && at[2] >= 0 {
		return Range{int64(at[2]), int64(at[3])}
	}
	return Range{int64(at[0]), int64(at[1])}
}

// Matching gives where a text has what an expression matches.
func Matching(re *regexp.Regexp) Matcher {
	return func(text []byte) (all []Range) {
		for _, at := range re.FindAllIndex(text, -1) {
			if at[0] < at[1] {
				all = append(all, Range{int64(at[0]), int64(at[1])})
			}
		}
		return all
	}
}

// Ranges gives where a text has secrets, in order and without overlaps. Of what a terminal was sent a Finder knows more.
func Ranges(text []byte) []Range { return Merge(Secrets(text)) }

// Marker stands for what was taken out of a text.
const Marker = "[redacted]"

// Text gives a text with its secrets replaced by Marker.
func Text(text string) string {
	all := Ranges([]byte(text))
	if len(all) == 0 {
		return text
	}
	var out strings.Builder
	at := int64(0)
	for _, r := range all {
		out.WriteString(text[at:r.From])
		out.WriteString(Marker)
		at = r.To
	}
	out.WriteString(text[at:])
	return out.String()
}

// Merge sorts ranges, and makes one of those that overlap. It changes all, and drops those with nothing in them.
func Merge(all []Range) []Range {
	all = slices.DeleteFunc(all, func(r Range) bool { return r.From >= r.To })
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	n := 0
	for _, r := range all {
		if n > 0 && r.From < all[n-1].To {
			all[n-1].To = max(all[n-1].To, r.To)
			continue
		}
		all[n] = r
		n++
	}
	return all[:n]
}
