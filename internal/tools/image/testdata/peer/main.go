// SPDX-License-Identifier: Apache-2.0

// Command peer is a server of HTTP and HTTPS, or a client that sends it a number of requests by each.
//
//	peer server PORT TLS_PORT
//	peer client PORT TLS_PORT REQUESTS
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	if os.Args[1] == "server" {
		serve(os.Args[2], os.Args[3])
		return
	}
	n, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	ask(n, "http://127.0.0.1:"+os.Args[2]+"/orders", "http://127.0.0.1:"+os.Args[2]+"/missing", "https://127.0.0.1:"+os.Args[3]+"/pay")
}

func serve(port, tlsPort string) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, "ok")
	})
	listener, err := tls.Listen("tcp", net.JoinHostPort("127.0.0.1", tlsPort), &tls.Config{Certificates: []tls.Certificate{certificate()}})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(listener, handler)) }()
	log.Fatal(http.ListenAndServe(net.JoinHostPort("127.0.0.1", port), handler))
}

// certificate is one for this run alone.
func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// ask sends the requests once the process has been discovered, and stays until it is killed.
func ask(n int, urls ...string) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	time.Sleep(3 * time.Second)
	for range n {
		for _, url := range urls {
			response, err := client.Get(url)
			if err != nil {
				log.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	select {}
}
