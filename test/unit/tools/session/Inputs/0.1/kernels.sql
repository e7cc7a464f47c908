PRAGMA application_id = 1346719315;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE subject (
        id INTEGER PRIMARY KEY,
        digest TEXT NOT NULL,
        text TEXT NOT NULL,
        op TEXT NOT NULL,
        target TEXT NOT NULL,
        UNIQUE (digest, text)
    );
INSERT INTO "subject" VALUES(2,'928a9f419617d634fe1b9ef028af44a3dd3b718d3efe69e4d6434c8fb9495422','{"device": "cpu", "kind": "task", "machine": "{\"abi\": 1, \"features\": \"+64bit,+adx,+aes,-amx-avx512,-amx-bf16,-amx-complex,-amx-fp16,-amx-fp8,-amx-int8,-amx-movrs,-amx-tf32,-amx-tile,+avx,-avx10.1,-avx10.2,+avx2,+avx512bf16,+avx512bitalg,+avx512bw,+avx512cd,+avx512dq,+avx512f,-avx512fp16,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vl,+avx512vnni,-avx512vp2intersect,+avx512vpopcntdq,-avxifma,-avxneconvert,-avxvnni,-avxvnniint16,-avxvnniint8,+bmi,+bmi2,-ccmp,-cf,-cldemote,+clflushopt,+clwb,+clzero,+cmov,-cmpccxadd,+crc32,+cx16,+cx8,-egpr,-enqcmd,+f16c,+fma,-fma4,+fsgsbase,+fxsr,+gfni,-hreset,+invpcid,-kl,-lwp,+lzcnt,+mmx,+movbe,-movdir64b,-movdiri,-movrs,-mwaitx,-ndd,-nf,+pclmul,-pconfig,-pku,+popcnt,-ppx,-prefetchi,+prfchw,-ptwrite,-push2pop2,-raoint,+rdpid,-rdpru,+rdrnd,+rdseed,-rtm,+sahf,-serialize,-sgx,+sha,-sha512,+shstk,-sm3,-sm4,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+sse4a,+ssse3,-tbm,-tsxldtrk,-uintr,-usermsr,+vaes,+vpclmulqdq,-waitpkg,-wbnoinvd,-widekl,-xop,+xsave,+xsavec,+xsaveopt,+xsaves,-zu\", \"generators\": \"bcfbbe57050cedd698ab479350fbf88ce894478c31a5066b5ff1d6ecf96f7bd3\", \"processor\": \"x86_64 znver4 AMD EPYC\", \"versions\": [\"numba 0.68.1\", \"llvmlite 0.50.0\", \"penstock 0.1.0\"]}", "parts": 1, "text": "{\n^bb0(%0: tensor<2x4xf32>, %1: tensor<4x3xf32>):\n  %2 = \"op.epilogue\"(%0, %1) ({\n  ^bb0(%3: tensor<2x4xf32>, %4: tensor<4x3xf32>):\n    %5 = \"op.matmul\"(%3, %4) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>\n    %6 = \"op.relu\"(%5) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n    \"op.yield\"(%6) : (tensor<2x3xf32>) -> ()\n  }) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>\n}"}','task','cpu');
CREATE TABLE time (
        subject INTEGER NOT NULL REFERENCES subject (id),
        alternative TEXT NOT NULL,
        source TEXT NOT NULL,
        median_ns REAL NOT NULL,
        least_ns REAL NOT NULL,
        samples INTEGER NOT NULL,
        measured_at TEXT NOT NULL,
        checksum TEXT NOT NULL,
        PRIMARY KEY (subject, alternative)
    ) WITHOUT ROWID;
INSERT INTO "time" VALUES(2,'task','penstock',5.1216,5.1216,1,'2026-11-23T05:59:53+00:00','e219f495da87c669b7596af40ef2e7e9f9c5dc7a1e40ef2d4095d47b042d5062');
COMMIT;
