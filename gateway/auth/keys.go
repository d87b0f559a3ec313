package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
)

// Algorithms of signatures that are taken (RFC 7518, RFC 8037).
const (
	hs256 = "HS256"
	rs256 = "RS256"
	es256 = "ES256"
	edDSA = "EdDSA"
)

// Algorithms lists them.
func Algorithms() []string { return []string{hs256, rs256, es256, edDSA} }

const (
	// minSecret is the length of the shortest secret for HS256, in bytes: RFC
	// 7518 section 3.2 wants as many bits as the hash has.
	minSecret  = 32
	minRSABits = 2048
	maxRSABits = 8192 // beyond, one verification costs milliseconds
	maxKeys    = 100  // of one set
)

var (
	errKeyType = errors.New("the key is of another type than alg says")
	errNoKey   = errors.New("holds no key that can be used")
)

// Key verifies tokens of one algorithm, so that no token can choose how its
// signature is understood. It never prints.
type Key struct {
	_   [0]func() // not comparable
	id  string    // kid; may be empty
	alg string
	key any // []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// Format prints the key's name and algorithm, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%s key %q", k.alg, k.id) }

// NewSecret is a key for HS256. It keeps secret.
func NewSecret(id string, secret []byte) (Key, error) {
	return newKey(id, hs256, secret)
}

// newKey checks that a key fits its algorithm and is strong enough.
func newKey(id, alg string, key any) (Key, error) {
	fits := false
	switch k := key.(type) {
	case []byte:
		if fits = alg == hs256; fits && len(k) < minSecret {
			return Key{}, fmt.Errorf("a secret of %d bytes is too short for %s: at least %d", len(k), hs256, minSecret)
		}
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return Key{}, fmt.Errorf("an RSA key of %d bits: from %d to %d are taken", bits, minRSABits, maxRSABits)
		}
		fits = alg == rs256
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return Key{}, fmt.Errorf("an EC key on %s: %s has P-256", k.Curve.Params().Name, es256)
		}
		if _, err := k.ECDH(); err != nil {
			return Key{}, errors.New("a point that is not on its curve")
		}
		fits = alg == es256
	case ed25519.PublicKey:
		fits = alg == edDSA
	}
	if !fits {
		return Key{}, errKeyType
	}
	return Key{id: id, alg: alg, key: key}, nil
}

// algorithmOf is what a key is for that does not say.
func algorithmOf(key any) string {
	switch key.(type) {
	case []byte:
		return hs256
	case *rsa.PublicKey:
		return rs256
	case *ecdsa.PublicKey:
		return es256
	case ed25519.PublicKey:
		return edDSA
	}
	return ""
}

// ParseKeys reads the content of a key file: a public key or certificate in PEM,
// a JWK or a JWK set. An empty alg is the key's own; id names a key that has no
// name of its own. Its errors quote nothing of the content.
func ParseKeys(content []byte, id, alg string) ([]Key, error) {
	if block, _ := pem.Decode(content); block != nil {
		key, err := publicKey(block)
		if err != nil {
			return nil, err
		}
		if alg == "" {
			alg = algorithmOf(key)
		}
		k, err := newKey(id, alg, key)
		return []Key{k}, err
	}
	var one jwkset.JWKMarshal
	if err := json.Unmarshal(content, &one); err != nil {
		return nil, errors.New("is neither PEM nor a JSON Web Key")
	}
	if one.KTY == "" {
		return parseSet(content, true)
	}
	if one.KID == "" {
		one.KID = id
	}
	k, err := fromJWK(one, alg, true)
	return []Key{k}, err
}

func publicKey(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return c.PublicKey, nil
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("holds a private key: a gateway only needs the public one")
	}
	return nil, fmt.Errorf("holds %q, not a public key", block.Type)
}

// parseSet reads a JWK set (RFC 7517 section 5). As that says, keys that are not
// understood or are for something else are passed over; a set without any other
// is an error. Secrets are taken only from files.
func parseSet(content []byte, secrets bool) ([]Key, error) {
	var set jwkset.JWKSMarshal
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, errors.New("is no JSON Web Key Set")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("holds %d keys, at most %d", len(set.Keys), maxKeys)
	}
	var keys []Key
	for _, m := range set.Keys {
		if k, err := fromJWK(m, "", secrets); err == nil {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errNoKey
	}
	return keys, nil
}

// fromJWK takes the key out of its JSON form. Certificates beside it are not
// looked at, nor fetched: the set itself is what is trusted.
func fromJWK(m jwkset.JWKMarshal, alg string, secrets bool) (Key, error) {
	m.X5U, m.X5C, m.X5T, m.X5TS256 = "", nil, "", ""
	isSecret := m.KTY == jwkset.KtyOct
	switch {
	case m.D != "":
		return Key{}, errors.New("holds a private key: a gateway only needs the public one")
	case m.USE != "" && m.USE != jwkset.UseSig, len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify):
		return Key{}, errors.New("the key is not for signatures")
	case isSecret && !secrets:
		return Key{}, errors.New("a secret in a public set")
	case m.ALG != "" && alg != "" && string(m.ALG) != alg:
		return Key{}, errKeyType
	case m.ALG != "":
		alg = string(m.ALG)
	}
	jwk, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{Private: isSecret}, jwkset.JWKValidateOptions{})
	if err != nil {
		return Key{}, errors.New("is no valid JSON Web Key")
	}
	if alg == "" {
		alg = algorithmOf(jwk.Key())
	}
	return newKey(m.KID, alg, jwk.Key())
}
