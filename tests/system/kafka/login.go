package main

import (
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

func login() sasl.Mechanism {
	return plain.Auth{User: "admin", Pass: "admin"}.AsMechanism()
}
