package drive

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/message"
)

// BareCommand is the word that has this program call Bare.
const BareCommand = "bare"

// bareFor is how long the cipher runs for one figure.
const bareFor = 200 * time.Millisecond

// Bare prints, by size, what opening and sealing one message costs in
// nanoseconds of processor time: AES-128-GCM of the standard library, in place,
// with one key for each direction, and nothing else.
func Bare(w io.Writer) error {
	costs := map[string]float64{}
	for _, size := range []int{64, 1024} {
		cost, err := openAndSeal(size)
		if err != nil {
			return err
		}
		costs[strconv.Itoa(size)] = cost
	}
	return json.NewEncoder(w).Encode(costs)
}

func openAndSeal(size int) (float64, error) {
	var directions [2]cipher.AEAD
	for i := range directions {
		block, err := aes.NewCipher([]byte{15: byte(i)})
		if err != nil {
			return 0, err
		}
		if directions[i], err = cipher.NewGCM(block); err != nil {
			return 0, err
		}
	}
	nonce := make([]byte, 12)
	sealed := directions[0].Seal(nil, nonce, message.Template(1, size), nil)
	room := make([]byte, 0, len(sealed))
	back := make([]byte, 0, len(sealed))
	n, begun := 0, measure.ProcessCPU()
	for end := time.Now().Add(bareFor); time.Now().Before(end); {
		for range 256 {
			arrived := append(room[:0], sealed...)
			plaintext, err := directions[0].Open(arrived[:0], nonce, arrived, nil)
			if err != nil {
				return 0, err
			}
			back = directions[1].Seal(back[:0], nonce, plaintext, nil)
			n++
		}
	}
	return float64(measure.ProcessCPU()-begun) / float64(n), nil
}

// bare measures the cipher in a process on the servers' core.
func (b *bench) bare(w *Work) (s Sample, err error) {
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	var out []byte
	err = onCore(b.ServerCore, b.GeneratorCore, func() error {
		cmd := child(self, BareCommand)
		out, err = cmd.Output()
		return err
	})
	if err != nil {
		return s, err
	}
	costs := map[string]float64{}
	if err := json.Unmarshal(out, &costs); err != nil {
		return s, err
	}
	cost, ok := costs[strconv.Itoa(w.Size)]
	if !ok {
		return s, fmt.Errorf("%s tells nothing of %d bytes", BareCommand, w.Size)
	}
	return Sample{ServerNS: cost}, nil
}
