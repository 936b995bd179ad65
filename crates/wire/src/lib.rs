//! Every byte layout of service-wire v1: typed records, envelopes and durable formats.
