// SPDX-License-Identifier: Apache-2.0

package httpexchange

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCredentialHeaders checks which headers are redacted by default, and that headers that identify no one are not.
func TestCredentialHeaders(t *testing.T) {
	r := &redaction{Headers: CredentialHeaders()}
	for _, name := range strings.Fields(`Authorization Proxy-Authorization X-Goog-IAM-Authorization-Token X-Goog-IAP-JWT-Assertion X-Goog-Api-Key
		X-Goog-Encryption-Key X-Amz-Security-Token X-Amzn-Oidc-AccessToken X-Amzn-Oidc-Data X-Auth-Token X-Auth-Key X-Auth-Request-Access-Token
		X-CSRF-Token X-CSRFToken X-XSRF-Token X-Vault-Token X-Consul-Token X-Access-Token Private-Token Job-Token Token Api-Key ApiKey X-Api-Key X-ApiKey
		X-RapidAPI-Key X-Session-Token X-Session-Id Session-Id X-Client-Secret Cookie Cookie2 Set-Cookie Sec-WebSocket-Protocol DPoP WWW-Authenticate
		Proxy-Authenticate Authentication-Info Proxy-Authentication-Info X-MS-Token-AAD-Id-Token X-MS-Copy-Source-Authorization X-Functions-Key
		Ocp-Apim-Subscription-Key X-Amz-Server-Side-Encryption-Customer-Key X-Forwarded-Access-Token X-Shopify-Access-Token
		X-Signature X-Signature-Ed25519 X-Signature-Timestamp X-Signature-256 X-Hub-Signature X-Hub-Signature-256 Signature Signature-Input X-Slack-Signature
		Stripe-Signature X-Amz-Signature X-Twilio-Signature X-Shopify-Hmac-Sha256 Webhook-Signature Svix-Signature
		X-Line-Signature X-Gitea-Signature X-Bitbucket-Signature-256`) {
		require.True(t, r.header(name), name)
		require.True(t, r.header(strings.ToLower(name)), name)
	}
	for _, name := range strings.Fields(`Host User-Agent Accept Content-Type ETag X-Request-Id Traceparent Idempotency-Key X-RateLimit-Remaining Via
		Sec-WebSocket-Key Access-Control-Allow-Headers X-Amz-Date X-Cache-Key Content-Length`) {
		require.False(t, r.header(name), name)
	}
}

func TestHeaderPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"x-*", "X-Any", true}, {"x-*", "x-", true}, {"x-*", "xy", false}, {"*-token", "a-TOKEN", true}, {"*-token", "token", false},
		{"*", "anything", true}, {"cookie", "cookies", false}, {"cookie", "Cookie", true}, {"cookie", "cooki", false},
	} {
		require.Equal(t, c.want, (&redaction{Headers: []string{c.pattern}}).header(c.name), c)
	}
}

// TestUserinfoInFields checks that no field of a sample has the userinfo of a URL or of a host, also if nothing is to be redacted.
func TestUserinfoInFields(t *testing.T) {
	for _, r := range []*redaction{{}, {Query: true}} {
		for name, values := range map[string]map[string]string{
			"host":             {"alice:SECRET@shop.example:8080": "?@shop.example:8080", "shop.example": "shop.example"},
			"origin":           {"https://alice:SECRET@shop.example": "https://?@shop.example", "alice:SECRET@shop": "?@shop", "null": "null"},
			"destination":      {"http://alice:SECRET@dav.example/b": "http://?@dav.example/b"},
			"referer":          {"https://SECRET@shop.example/a": "https://?@shop.example/a"},
			"location":         {"//alice:SE@CRET@shop.example/a": "//?@shop.example/a"},
			"content-location": {"https://alice:SECRET@shop.example": "https://?@shop.example"},
			"link":             {"<https://a:SECRET@h/a>; rel=next, <https://b:SECRET@h/b>; rel=prev": "<https://?@h/a>; rel=next, <https://?@h/b>; rel=prev"},
			"forwarded":        {"for=a:SECRET@192.0.2.1": "?@192.0.2.1"},
			"x-forwarded-host": {"alice:SECRET@shop.example": "?@shop.example"},
			"x-original-url":   {"http://alice:SECRET@shop.example/a": "http://?@shop.example/a"},
			"refresh":          {"5; url=http://a:SECRET@h/": "5; url=http://?@h/"},
			"x-anything":       {"see http://a:SECRET@h and ftp://b:SECRET@i": "see http://?@h and ftp://?@i", "write to a@b": "write to a@b"},
		} {
			for value, want := range values {
				require.Equal(t, []string{want}, r.values(name, []string{value}), name)
			}
		}
	}
	require.Equal(t, []string{"<https://h/a;s=?>; rel=next, <b;s=?"}, (&redaction{Query: true}).values("link", []string{"<https://h/a;s=SECRET>; rel=next, <b;s=?"}))
}

// TestUserinfoInPaths checks that no path of events, spans and metrics has the userinfo of a URL, also if nothing is to be redacted.
func TestUserinfoInPaths(t *testing.T) {
	for path, want := range map[string]string{
		"/proxy/http://alice:SECRET@shop.example/a": "/proxy/http://?@shop.example/a",
		"//alice:SECRET@shop.example/a":             "//?@shop.example/a",
		"/npm//@scope/pkg":                          "/npm//@scope/pkg",
		"/~alice@example/a":                         "/~alice@example/a",
	} {
		require.Equal(t, want, string((&redaction{}).appendPath(nil, []byte(path))))
	}
}

func TestRedactedQuery(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "a=1": "a=?", "a=1&b=2": "a=?&b=?", "secret": "?", "a=": "a=?", "=x": "=?", "a=b=c": "a=?", "a=1;b=2": "a=?", "&": "?&?",
	} {
		require.Equal(t, want, string((&redaction{Query: true}).appendQuery(nil, []byte(query))), query)
		require.Equal(t, query, string((&redaction{}).appendQuery(nil, []byte(query))))
	}
}

// TestRedactedPath checks that values of parameters in a path are not exported, in the path itself and within a URL.
func TestRedactedPath(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "/": "/", "*": "*", "/users/17": "/users/17", "/cart;jsessionid=SECRET": "/cart;jsessionid=?", "/a;v=1/b;w=2;x=3/c": "/a;v=?/b;w=?;x=?/c",
		"/a;SECRET/b": "/a;?/b", "/a;": "/a;", "/a;;b=": "/a;;b=?", "/a;b=c=d,e/": "/a;b=?/", ";=x": ";=?", "/a=1": "/a=1",
	} {
		require.Equal(t, want, string((&redaction{Query: true}).appendPath(nil, []byte(path))), path)
		require.Equal(t, path, string((&redaction{}).appendPath(nil, []byte(path))))
	}
}

// TestQueriesInFields checks that no value of a query in a field is exported, whatever characters RFC 3986 allows in it, and that what
// follows the query is.
func TestQueriesInFields(t *testing.T) {
	r := &redaction{Query: true}
	exported := func(value string) string { return r.values("location", []string{value})[0] }
	for _, c := range "!$'()*+,;:@/?-._~%" { // & and = are between names and values
		for _, query := range []string{"?ids=1_2&token=SECRET", "?_token=SECRET", "?b_c&token=SECRET", "?SECRET_SECRET", "?a=1_token=SECRET"} {
			value := "https://app/cb" + strings.ReplaceAll(query, "_", string(c))
			require.NotContains(t, exported(value), "SECRET", value)
		}
	}
	for value, want := range map[string]string{
		"https://app/cb?ids=1,2,3&token=SECRET": "https://app/cb?ids=?&token=?",
		"https://app/cb?x=1;b&token=SECRET":     "https://app/cb?x=?&token=?",
		"https://app/cb?q=it's&token=SECRET":    "https://app/cb?q=?&token=?",
		"/verify?eyJSECRET":                     "/verify??",
		"/verify?eyJSECRET&b":                   "/verify??&?",
		"<a?x=1>; rel=next, <b?y=2>":            "<a?x=?>; rel=next, <b?y=?>",
		`see "a?x=1" and b?y=2 there`:           `see "a?x=?" and b?y=? there`,
		"a?x=1\tb":                              "a?x=?\tb",
		"/a?b=1#top":                            "/a?b=?#top",
		"/cb#access_token=SECRET&state=x":       "/cb#access_token=?&state=?",
		"/cb?a=1#t=SECRET#u=SECRET":             "/cb?a=?#t=?#u=?",
		"/cart;jsessionid=SECRET":               "/cart;jsessionid=?",
		"http://u:SECRET@h/p?a=SECRET":          "http://?@h/p?a=?",
		"//u:p@SECRET@h":                        "//?@h",
		"https://h/~user@host":                  "https://h/~user@host",
		"https://app/a;s=SECRET/b?c=1;d#e":      "https://app/a;s=?/b?c=?#e",
		"why?":                                  "why?",
		"why? so":                               "why? so",
	} {
		require.Equal(t, want, exported(value))
	}
	require.Equal(t, []string{"text/html;charset=utf-8"}, r.values("content-type", []string{"text/html;charset=utf-8"}))
}

func FuzzWithoutUsers(f *testing.F) {
	f.Add("http://a:b@c/d?e#f //g@h")
	f.Add("////@//@@")
	f.Fuzz(func(t *testing.T, text string) {
		once := withoutUsers(text)
		require.Equal(t, once, withoutUsers(once), "nothing is left to replace")
		require.LessOrEqual(t, len(once), 2*len(text))
	})
}
