package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/sealcast/sealcast/internal/advice"
)

// loadRedisTLS reads the certificates for connections to Redis.
func (f *inForce) loadRedisTLS() error {
	c := &f.cfg.Redis.TLS
	if !c.Enabled {
		return nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CA != "" {
		roots, err := readAuthorities("redis.tls.ca", c.CA)
		if err != nil {
			return err
		}
		settings.RootCAs = roots
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return advice.Failed(fmt.Errorf("redis.tls.cert, redis.tls.key: %w", err), "name PEM files of a certificate and of its key")
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	f.redisTLS = settings
	return nil
}

// readAuthorities reads certificates. name is what messages call the file.
func readAuthorities(name, path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("%s: %w", name, err), "name a PEM file with the certificate of the authority")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, advice.Failed(fmt.Errorf("%s %s holds no certificate", name, path), "name a PEM file with the certificate of the authority")
	}
	return roots, nil
}
