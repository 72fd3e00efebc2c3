// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is longer than any load runs.
const certificateLife = 24 * time.Hour

// Certificate writes one for the loopback address into dir, with its key, and returns both files.
func Certificate(dir string) (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("making a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, // Java takes none without a name
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", fmt.Errorf("making a certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("encoding a key: %w", err)
	}
	certificate, key = filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	for _, file := range []struct {
		path  string
		block pem.Block
	}{{certificate, pem.Block{Type: "CERTIFICATE", Bytes: signed}}, {key, pem.Block{Type: "PRIVATE KEY", Bytes: encoded}}} {
		if err := os.WriteFile(file.path, pem.EncodeToMemory(&file.block), 0o600); err != nil {
			return "", "", fmt.Errorf("writing a certificate: %w", err)
		}
	}
	return certificate, key, nil
}
