// SPDX-License-Identifier: Apache-2.0

package rfc9110

// OtherMethod is the method of requests whose own the semantic conventions do not know.
const OtherMethod = "_OTHER"

const other = OtherMethod

// methods are those that are in use, with the names that the conventions have for them.
var methods = map[string]string{
	"CONNECT": "CONNECT", "DELETE": "DELETE", "GET": "GET", "HEAD": "HEAD", "OPTIONS": "OPTIONS", "PATCH": "PATCH", "POST": "POST", "PUT": "PUT",
	"TRACE": "TRACE", "QUERY": "QUERY",
	"ACL": other, "BIND": other, "CHECKIN": other, "CHECKOUT": other, "COPY": other, "LINK": other, "LOCK": other, "MERGE": other, "MKACTIVITY": other,
	"MKCALENDAR": other, "MKCOL": other, "MOVE": other, "NOTIFY": other, "PROPFIND": other, "PROPPATCH": other, "PURGE": other, "REBIND": other,
	"REPORT": other, "SEARCH": other, "SOURCE": other, "SUBSCRIBE": other, "UNBIND": other, "UNLINK": other, "UNLOCK": other, "UNSUBSCRIBE": other,
}

// Method is the method as the conventions name it.
func Method(method []byte) string {
	switch string(method) { // the frequent ones, without a look-up in the map
	case "GET":
		return "GET"
	case "POST":
		return "POST"
	}
	if known, ok := methods[string(method)]; ok {
		return known
	}
	return other
}

// IsMethod reports whether the method is in use.
func IsMethod(method []byte) bool {
	_, known := methods[string(method)]
	return known
}

// BeginsMethod reports whether a method that is in use begins so.
func BeginsMethod(first []byte) bool {
	for method := range methods {
		if len(first) <= len(method) && method[:len(first)] == string(first) {
			return true
		}
	}
	return false
}

// EndsMethod reports whether a method that is in use ends so, and is longer.
func EndsMethod(last []byte) bool {
	for method := range methods {
		if len(last) < len(method) && method[len(method)-len(last):] == string(last) {
			return true
		}
	}
	return false
}
