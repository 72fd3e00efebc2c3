// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// startNginx starts one worker below a master. It compresses text, reads files and speaks TLS.
func startNginx(ctx context.Context, p *Place) (*Running, error) {
	paths, err := findAll("nginx", "wrk")
	if err != nil {
		return nil, err
	}
	nginx, wrk := paths[0], paths[1]
	plain, err := freeport.Get()
	if err != nil {
		return nil, err
	}
	secure, err := freeport.Get()
	if err != nil {
		return nil, err
	}
	if err := p.writePages(); err != nil {
		return nil, err
	}
	config, err := p.write("nginx.conf", "@DIR@", p.Dir, "@PORT@", strconv.Itoa(plain), "@TLS_PORT@", strconv.Itoa(secure))
	if err != nil {
		return nil, err
	}
	server, err := p.serve(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(plain), nginx, "-p", p.Dir, "-e", p.path("error.log"), "-c", config)
	if err != nil {
		return nil, err
	}
	load := func(ctx context.Context, d time.Duration) error {
		wrkCommand := []string{wrk, "-t1", "-c8", "-d" + seconds(d+time.Minute)}
		text := append(wrkCommand[:4:4], "-H", "Accept-Encoding: gzip", fmt.Sprintf("http://127.0.0.1:%d/text.html", plain))
		tls := append(wrkCommand[:4:4], fmt.Sprintf("https://127.0.0.1:%d/plain/text.html?a=b", secure))
		handshakes := append(wrkCommand[:4:4], "-H", "Connection: close", fmt.Sprintf("https://127.0.0.1:%d/", secure))
		for _, commands := range [][][]string{{text}, {tls}, {text, handshakes}} {
			if err := p.runFor(ctx, d/3, commands...); err != nil {
				return err
			}
		}
		return nil
	}
	return &Running{Exe: nginx, main: server, load: load}, nil
}

// writePages writes what the server delivers: a text, a certificate and its key.
func (p *Place) writePages() error {
	var text strings.Builder
	for i := range 400 {
		fmt.Fprintf(&text, "<p>Line %d of a text that compresses well, but not to nothing: %x</p>\n", i, i*i*2654435761)
	}
	if _, err := p.writeText("text.html", text.String()); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"localhost"}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding a key: %w", err)
	}
	if _, err := p.writeText("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))); err != nil {
		return err
	}
	_, err = p.writeText("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	return err
}
