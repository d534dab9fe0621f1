// SPDX-License-Identifier: Apache-2.0
plugins {
    id("com.android.library")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "org.mebp"
    compileSdk = 34
    defaultConfig {
        minSdk = 26
        consumerProguardFiles("keep.pro")
        ndk { abiFilters += "arm64-v8a" }
        externalNativeBuild {
            cmake {
                val runtime = providers.gradleProperty("mebpRuntime").get()
                require(runtime.isNotEmpty()) { "give -PmebpRuntime=FOLDER, where the runtime for arm64-v8a is installed" }
                // The NDK's toolchain looks for packages in its own folders alone, unless it is told.
                arguments("-DANDROID_STL=c++_shared", "-DCMAKE_FIND_ROOT_PATH=$runtime")
            }
        }
    }
    externalNativeBuild { cmake { path = file("src/main/cpp/CMakeLists.txt") } }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    kotlinOptions { jvmTarget = "1.8" }
}

dependencies {
    api("org.jetbrains.kotlinx:kotlinx-coroutines-android:1.8.1")
    testImplementation("junit:junit:4.13.2")
}

// They need the library for this machine and a bundle: scripts/test_jni.sh has both.
tasks.withType<Test> { enabled = false }
