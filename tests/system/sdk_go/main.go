// What tests/system/test_sdk_go.py runs: `sdk aws|minio|snowball ENDPOINT ACCESS SECRET BUCKET`. Each check prints a line; the
// first that fails ends it.
package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
)

func check(holds bool, what string) {
	if !holds {
		fmt.Fprintln(os.Stderr, "does not hold:", what)
		os.Exit(1)
	}
	fmt.Println("ok", what)
}

func must(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func noise(size int) []byte {
	out := make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(out)
	return out
}

func same(a, b []byte) bool { return bytes.Equal(a, b) }

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "sdk aws|minio|snowball ENDPOINT ACCESS SECRET BUCKET")
		os.Exit(2)
	}
	run := map[string]func(endpoint, access, secret, bucket string){"aws": runAws, "minio": runMinio, "snowball": runSnowball}[os.Args[1]]
	run(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
}
