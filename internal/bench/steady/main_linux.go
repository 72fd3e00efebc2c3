// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "steady:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("no command: ask and serve are allowed")
	}
	flags := flag.NewFlagSet("steady "+args[0], flag.ContinueOnError)
	switch args[0] {
	case "ask":
		var c client
		url := flags.String("url", "", "what is asked for, http or https")
		flags.IntVar(&c.rate, "rate", 1000, "requests per second, over all connections; 0: as fast as they are answered")
		flags.IntVar(&c.connections, "connections", 32, "connections, each with one request at a time")
		flags.DurationVar(&c.length, "for", time.Second, "how long")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if err := c.to(*url); err != nil {
			return err
		}
		asked, err := c.run()
		return errors.Join(err, json.NewEncoder(os.Stdout).Encode(asked))
	case "serve":
		listen := flags.String("listen", "", "address and port")
		certificate := flags.String("certificate", "", "PEM file")
		key := flags.String("key", "", "PEM file")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return serve(*listen, *certificate, *key)
	}
	return fmt.Errorf("command %q: ask and serve are allowed", args[0])
}

// body is what nginx answers, too.
const body = "hello from memory\n"

// serve answers on HTTP/1.1 through TLS until it is ended.
func serve(listen, certificate, key string) error {
	server := &http.Server{
		Addr:         listen,
		Handler:      http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2
	}
	return server.ListenAndServeTLS(certificate, key)
}
