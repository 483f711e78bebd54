package smuggle

import "strings"

// trial is what is sent, and what comes of it.
type trial struct {
	name    string
	raw     string
	want    string // how the answer's status begins; "" is no matter, or none
	reaches string // the bytes that the session gets: one request, or none
}

// The beginnings and ends of requests. A case ends its connection where it isn't refused.
const (
	host = "Host: {HOST}\r\n{TOKEN}"
	end  = "Connection: close\r\n\r\n"
	get  = "GET /x HTTP/1.1\r\n" + host
	post = "POST /x HTTP/1.1\r\n" + host
	// second is what must not be taken for a request.
	second = "GET /smuggled HTTP/1.1\r\n" + host + "\r\n"
)

// told are the headers that the server adds.
const told = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: {HOST}\r\nX-Forwarded-Proto: http\r\n"

// got is a request as a session has it. One that isn't sent twice has a connection of its own.
func got(line, headers, body string) string {
	last := ""
	if method, _, _ := strings.Cut(line, " "); method != "GET" && method != "TRACE" {
		last = "Connection: close\r\n"
	}
	return line + " HTTP/1.1\r\nHost: {HOST}\r\n" + headers + told + last + "\r\n" + body
}

// What a case may come to besides.
const (
	broken  = "broken"   // no status: a body that can't be read has no whole request reach the session
	none    = " "        // nothing reaches the session, and yet the answer is 200
	hundred = "{100 MB}" // of headers: as many as are taken
	upgrade = "GET /x HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: magic\r\n" + told + "\r\n"
)

var cases = []trial{
	{"plain", get + end, "200", got("GET /x", "", "")},
	{"a body", post + "Content-Length: 5\r\n" + end + "hello", "200", got("POST /x", "Content-Length: 5\r\n", "hello")},

	// Length and chunks.
	{"CL.TE", post + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n" + end + "0\r\n\r\n" + second, "200", got("POST /x", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n")},
	{"TE.CL", post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n" + end + "5\r\nhello\r\n0\r\n\r\n" + second, "200", got("POST /x", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")},
	{"TE.TE", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + second, "501", ""},
	{"TE list", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + second, "501", ""},
	{"TE of another name", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + second, "501", ""},
	{"TE quoted", post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" + second, "501", ""},
	{"TE with a tab", post + "Transfer-Encoding:\tchunked\r\n" + end + "5\r\nhello\r\n0\r\n\r\n", "200", got("POST /x", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")},
	{"TE with a vertical tab", post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + second, "", ""},
	{"TE with capitals", post + "tRANSFER-eNCODING: CHUNKED\r\n" + end + "5\r\nhello\r\n0\r\n\r\n", "200", got("POST /x", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")},
	{"TE with a space before the colon", post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + second, "400", ""},
	{"TE in a folded line", post + "Transfer-Encoding:\r\n chunked\r\n" + end + "5\r\nhello\r\n0\r\n\r\n", "200", got("POST /x", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")},
	{"TE after a bare CR", post + "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second, "400", ""},
	{"TE and HTTP/1.0", "POST /x HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + second, "200", got("POST /x", "Content-Length: 4\r\n", "5\r\nh")},
	{"two lengths", post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!" + second, "400", ""},
	{"the same length twice", post + "Content-Length: 5\r\nContent-Length: 5\r\n" + end + "hello" + second, "200", got("POST /x", "Content-Length: 5\r\n", "hello")},
	{"a list of lengths", post + "Content-Length: 5, 5\r\n\r\nhello" + second, "400", ""},
	{"a length with a sign", post + "Content-Length: +5\r\n\r\nhello" + second, "400", ""},
	{"a negative length", post + "Content-Length: -5\r\n\r\nhello" + second, "400", ""},
	{"a length in hexadecimal", post + "Content-Length: 0x5\r\n\r\nhello" + second, "400", ""},
	{"a length with a space in it", post + "Content-Length: 5 6\r\n\r\nhello" + second, "400", ""},
	{"a length beyond 64 bits", post + "Content-Length: 18446744073709551621\r\n\r\nhello" + second, "400", ""},
	{"an empty length", post + "Content-Length: \r\n\r\n" + second, "400", ""},
	{"a GET with a body", get + "Content-Length: 5\r\n" + end + "hello" + second, "200", strings.Replace(got("GET /x", "Content-Length: 5\r\n", "hello"), told, told+"Connection: close\r\n", 1)},

	// Chunks.
	{"chunk extensions", post + "Transfer-Encoding: chunked\r\n" + end + "5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n" + second, "200", got("POST /x", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")},
	{"a chunk's size beyond 64 bits", post + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n" + second, broken, ""},
	{"a chunk's size with a prefix", post + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n" + second, broken, ""},
	{"a chunk's size with a sign", post + "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n" + second, broken, ""},
	{"a chunk that is too long", post + "Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n" + second, broken, ""},
	{"a bare LF after a chunk's size", post + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n" + second, broken, ""},

	{"a request after a chunk's size that is none", post + "Transfer-Encoding: chunked\r\n\r\n0x5\r\n" + second, broken, ""},
	{"a request after a chunk that is too long", post + "Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n" + second, broken, ""},

	// Lines and names.
	{"a folded header", get + "X: a\r\n b\r\n" + end, "200", got("GET /x", "X: a b\r\n", "")},
	{"a header before the first", "GET /x HTTP/1.1\r\n X: y\r\n" + host + end, "400", ""},
	{"NUL in a value", get + "X: a\x00b\r\n" + end, "400", ""},
	{"CR in a value", get + "X: a\rb\r\n" + end, "400", ""},
	{"NUL in a name", get + "X\x00Y: a\r\n" + end, "400", ""},
	{"a space in a name", get + "X Y: a\r\n" + end, "400", ""},
	{"a space before the colon", get + "X : a\r\n" + end, "400", ""},
	{"no name", get + ": a\r\n" + end, "400", ""},
	{"no colon", get + "X\r\n" + end, "400", ""},
	{"a name of a thing beyond ASCII", get + "X\xc3\xa4: a\r\n" + end, "400", ""},
	{"NUL in the line", "GET /x\x00y HTTP/1.1\r\n" + host + end, "400", ""},
	{"two spaces in the line", "GET  /x HTTP/1.1\r\n" + host + end, "400", ""},
	{"a tab in the line", "GET\t/x\tHTTP/1.1\r\n" + host + end, "400", ""},
	{"a method that is none", "G@T /x HTTP/1.1\r\n" + host + end, "400", ""},
	{"a lower-case method", "get /x HTTP/1.1\r\n" + host + end, "200", got("get /x", "", "")},
	{"100 MB of headers", get + hundred, "431", ""},
	{"many headers", get + strings.Repeat("X: a\r\n", 1<<14) + end, "431", ""},

	// Hosts and targets.
	{"two hosts", get + "Host: evil.example\r\n" + end, "400", ""},
	{"a host twice", get + "Host: {HOST}\r\n" + end, "400", ""},
	{"no host", "GET /x HTTP/1.1\r\n" + end, "400", ""},
	{"an empty host", "GET /x HTTP/1.1\r\nHost:\r\n" + end, "", ""},
	{"another host", "GET /x HTTP/1.1\r\nHost: evil.example\r\n{TOKEN}" + end, "421", ""},
	{"a host with a slash", "GET /x HTTP/1.1\r\nHost: {HOST}/evil\r\n{TOKEN}" + end, "4", ""},
	{"a host with a user", "GET /x HTTP/1.1\r\nHost: evil@{HOST}\r\n{TOKEN}" + end, "4", ""},
	{"a target of another host", "GET http://evil.example/x HTTP/1.1\r\n" + host + end, "421", ""},
	{"a target of its own", "GET http://{HOST}/x HTTP/1.1\r\nHost: evil.example\r\n{TOKEN}" + end, "200", got("GET /x", "", "")},
	{"a target of another scheme", "GET file:///etc/passwd HTTP/1.1\r\n" + host + end, "400", ""},
	{"CONNECT", "CONNECT {HOST}:80 HTTP/1.1\r\n" + host + end, "4", ""},
	{"CONNECT of a path", "CONNECT /x HTTP/1.1\r\n" + host + end, "4", ""},
	{"OPTIONS *", "OPTIONS * HTTP/1.1\r\n" + host + end, "200", none},
	{"TRACE", "TRACE /x HTTP/1.1\r\n" + host + end, "200", got("TRACE /x", "", "")},

	// Headers of one hop, and ours.
	{"headers that a connection names", get + "Connection: X-Forwarded-For, X-Diapause-Caller, Host, X\r\nX: a\r\nX-Diapause-Caller: b\r\n" + "Connection: close\r\n\r\n", "200", got("GET /x", "", "")},
	{"what is said of the way", get + "X-Forwarded-For: 10.0.0.1\r\nX_Forwarded_For: 10.0.0.2\r\nForwarded: for=10.0.0.3\r\nX-Real-IP: 10.0.0.4\r\nDiapause-Session: a\r\nX-Original-URL: /y\r\n" + end, "200", got("GET /x", "", "")},
	{"headers of one hop", get + "Keep-Alive: 1\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\nProxy-Authorization: Basic eDp5\r\n" + end, "200", got("GET /x", "", "")},
	{"trailers", post + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n" + end + "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "200", got("POST /x", "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n", "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n")},
	{"trailers that weren't told of", post + "Transfer-Encoding: chunked\r\n" + end + "5\r\nhello\r\n0\r\nX-Sum: 1\r\nHost: evil\r\n\r\n", "200", got("POST /x", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")},
	{"trailers of a length and a host", post + "Transfer-Encoding: chunked\r\nTrailer: Content-Length, Transfer-Encoding\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 1\r\n\r\n" + second, "400", ""},

	// Other protocols.
	{"h2c", get + "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n", "200", got("GET /x", "", "")},
	{"HTTP/0.9", "GET /x\r\n" + second, "400", ""},
	{"HTTP/1.0", "GET /x HTTP/1.0\r\n" + host + "\r\n", "200", got("GET /x", "", "")},
	{"HTTP/1.2", "GET /x HTTP/1.2\r\n" + host + end, "200", got("GET /x", "", "")},
	{"HTTP/2 by name", "GET /x HTTP/2.0\r\n" + host + end, "505", ""},
	{"HTTP/3 by name", "GET /x HTTP/3.0\r\n" + host + end, "505", ""},
	{"an expectation", post + "Expect: 100-continue\r\nContent-Length: 5\r\n" + end + "hello", "100", got("POST /x", "Content-Length: 5\r\nExpect: 100-continue\r\n", "hello")},
	{"another expectation", post + "Expect: magic\r\nContent-Length: 5\r\n" + end + "hello" + second, "417", ""},
	{"an unknown protocol", get + "Connection: Upgrade, close\r\nUpgrade: magic\r\n\r\n", "200", upgrade},
	{"a request after an upgrade that was refused", get + "Connection: Upgrade\r\nUpgrade: magic\r\n\r\nGET /y HTTP/1.1\r\n" + host + end, "200", upgrade + got("GET /y", "", "")},

	// Paths.
	{"dots", "GET /a/../b HTTP/1.1\r\n" + host + end, "200", got("GET /a/../b", "", "")},
	{"path form", "GET {PATH}/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "200", ofPath("GET /x")},
	{"path form, dots", "GET {PATH}/../../../other/web/80/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "200", ofPath("GET /../../../other/web/80/x")},
	{"path form, escaped dots", "GET {PATH}/%2e%2e/%2E%2E/other HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "200", ofPath("GET /%2e%2e/%2E%2E/other")},
	{"path form, escaped slashes", "GET {PATH}%2f..%2fother HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "404", ""},
	{"path form, an escaped port", "GET /s/acme/web/%38%30/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "404", ""},
	{"path form, an escaped name", "GET /s/acme/w%65b/80/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "404", ""},
	{"path form, double slashes", "GET /s//acme/web/80/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "404", ""},
	{"path form, a double slash before it", "GET //s/acme/web/80/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "4", ""},
	{"path form, a double slash after it", "GET {PATH}//evil.example/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "200", ofPath("GET //evil.example/x")},
	{"path form, backslashes", "GET {PATH}/..\\..\\other HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "200", ofPath("GET /..%5C..%5Cother")},
	{"path form, dots for a name", "GET /s/acme/../80/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "404", ""},
	{"path form, dots before it", "GET /s/other/web/../../acme/web/80/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "404", ""},
	{"path form, a port with zeros", "GET /s/acme/web/080/x HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "404", ""},
	{"path form, without an end", "GET {PATH} HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "200", ofPath("GET /")},
	{"path form, a fragment", "GET {PATH}/x#/../y HTTP/1.1\r\nHost: localhost\r\n{TOKEN}" + end, "200", ofPath("GET /x%23/../y")},
}

// ofPath is a request of the path form as a session has it.
func ofPath(line string) string {
	text := got(line, "", "")
	text = strings.ReplaceAll(text, "{HOST}", "localhost")
	return strings.Replace(text, "X-Forwarded-Proto: http\r\n", "X-Forwarded-Prefix: {PATH}\r\nX-Forwarded-Proto: http\r\n", 1)
}
