package main

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/sealcast/sealcast/internal/config"
)

// newLogger returns a logger that writes whole lines to w, from any goroutine.
func newLogger(w io.Writer, settings config.Log) *zap.Logger {
	keys := zap.NewProductionEncoderConfig()
	keys.EncodeTime = func(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
		enc.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	keys.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(keys)
	if settings.Format == config.LogText {
		keys.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(keys)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), logLevel(settings.Level)))
}

func logLevel(l config.LogLevel) zapcore.Level {
	switch l {
	case config.LogDebug:
		return zapcore.DebugLevel
	case config.LogWarn:
		return zapcore.WarnLevel
	case config.LogError:
		return zapcore.ErrorLevel
	default:
		return zapcore.InfoLevel
	}
}
